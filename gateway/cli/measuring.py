"""The work of `evaluate review`: labelled issues and judges in, a table, JSON and a plot out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from checks.evaluate.injection import Flips, injected, told
from checks.evaluate.issues import read_labelled, sample
from checks.evaluate.measures import Interval, Share
from checks.evaluate.places import Looked, look
from checks.evaluate.plot import svg
from checks.evaluate.review import Labelled, Report, Result, evaluate
from checks.evaluate.simulate import Quality, Setting, simulate
from checks.review.cassette import AbsentJudge, Cassette
from checks.types import Judge
from gateway.cli.output import USAGE, Table, emit, fail, note
from gateway.cli.seats import chosen, opened

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the command was told."""

    data: Path
    judges: tuple[str, ...]
    config: Path | None
    data_set: str | None
    count: int
    seed: int
    hops: int
    cassette: Path | None
    replay: bool
    repositories: Path | None
    concurrency: int


def simulated_reports(correlations: list[float], unsure: float, hops: int) -> dict[str, Report]:
    """A report for every correlation."""
    quality = Quality(unsure=(unsure, unsure))
    return {
        f"correlation {one:g}": simulate(Setting(quality=quality, correlation=one, hops=hops)) for one in correlations
    }


def judged(run: Run) -> Report:
    """The report of one run; ends the process when there is nothing to judge."""

    async def work(stage: _Stage) -> Report:
        return await evaluate(
            stage.issues,
            stage.judges,
            hops=run.hops,
            replies=stage.tape,
            concurrency=run.concurrency,
            progress=stage.progress,
        )

    return asyncio.run(_staged(run, work))


def flips(run: Run) -> tuple[Flips, ...]:
    """How often orders in issue and code turned each judge; ends the process when there is nothing to judge."""
    if not run.judges:
        fail("--inject needs a judge", "name one with --judge", USAGE)

    async def work(stage: _Stage) -> tuple[Flips, ...]:
        return await injected(stage.issues, stage.judges, replies=stage.tape, concurrency=run.concurrency)

    return asyncio.run(_staged(run, work))


@dataclass(frozen=True, slots=True)
class _Stage:
    """Everything a run needs, opened."""

    issues: list[Labelled]
    judges: list[Judge]
    tape: Cassette | None
    progress: Callable[[str], None] | None


async def _staged(run: Run, work: Callable[[_Stage], Awaitable[T]]) -> T:
    if run.replay and run.cassette is None:
        fail("--replay needs --cassette FILE", code=USAGE)
    issues = [one for one in read_labelled(run.data) if run.data_set is None or one.data_set == run.data_set]
    async with AsyncExitStack() as stack:
        looked = await look(issues, run.repositories, stack)
        if looked.left_out:
            note(f"{looked.left_out} issues left out: their code is in no repository given (--repositories)")
        scenes = {issue.id: scene for issue, scene in looked.pairs}
        chosen_ones = sample([issue for issue, _ in looked.pairs], run.count, run.seed)
        labelled = [scenes[issue.id] for issue in chosen_ones]
        _some(labelled, looked)
        judges: list[Judge]
        if run.replay:
            judges = [AbsentJudge(spec.partition("=")[0]) for spec in run.judges]
        else:
            judges = await opened(chosen(run.judges, run.config), stack)
        shown = bool(judges) and not run.replay
        stage = _Stage(labelled, judges, _tape(run, stack), _counting(len(labelled)) if shown else None)
        return await work(stage)


def _counting(total: int) -> Callable[[str], None]:
    done = 0

    def progress(_: str) -> None:
        nonlocal done
        done += 1
        if done % 10 == 0:
            note(f"{done} of {total}")

    return progress


def _some(labelled: list[Any], looked: Looked) -> None:
    if not labelled:
        hint = "give --repositories, or --set crscore" if looked.left_out else "choose another --set"
        fail("no labelled issue is left to judge", hint, USAGE)


def _tape(run: Run, stack: AsyncExitStack) -> Cassette | None:
    return None if run.cassette is None else stack.enter_context(Cassette(run.cassette, read_only=run.replay))


def tell(reports: dict[str, Report], out: Path | None, plot: Path | None, *, as_json: bool) -> None:
    """Print the reports, and write what was asked for."""
    data = {name: report.told() for name, report in reports.items()}
    if out is not None:
        out.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if plot is not None:
        name, report = next(iter(reports.items()))
        plot.write_text(svg(report, f"Hallucinated issues, {name}"), encoding="utf-8")
    if as_json:
        emit(data, as_json=True)
        return
    for name, report in reports.items():
        emit(None, as_json=False, table=_table(report), text=_below(name, report))


def tell_flips(found: Sequence[Flips], out: Path | None, *, as_json: bool) -> None:
    """Print how often orders turned a verdict, and write what was asked for."""
    data = told(found)
    if out is not None:
        out.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    rows = [(one.judge, one.place, _share(one.flipped), one.flipped.total, one.abstained) for one in found]
    emit(data, as_json=as_json, table=(("judge", "order in", "flipped", "verdicts", "abstained"), rows))


def _table(report: Report) -> Table:
    columns = (
        "variant", "recall", "precision", "false alarms", "F1", "kept", "not judged", "calls", "USD", "seconds",
    )  # fmt: skip
    return columns, [_row(result) for result in report.results]


def _row(result: Result) -> tuple[str, ...]:
    measures = result.measures
    return (
        result.name,
        _share(measures.recall),
        _share(measures.precision),
        _share(measures.false_positives),
        _figure(measures.f1, measures.f1_interval),
        _figure(measures.kept.value, None),
        str(measures.unjudged),
        str(result.calls),
        "" if result.cost_usd is None else f"{result.cost_usd:.4f}",
        f"{result.seconds:.0f}",
    )


def _share(share: Share) -> str:
    return _figure(share.value, share.interval)


def _figure(value: float | None, interval: Interval | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if interval is None else f"{value:.2f} ({interval[0]:.2f}-{interval[1]:.2f})"


def _below(name: str, report: Report) -> str:
    lines = []
    if report.results:
        rate = report.results[0].measures.base_rate
        lines.append(f"{name}: {rate.hits} hallucinations among {rate.total} issues (base rate {rate.value or 0:.2f})")
    for one in report.agreements:
        among = _figure(one.hallucinations, None)
        lines.append(
            f"phi of {one.judges[0]} and {one.judges[1]}: {_figure(one.overall, one.interval)}; "
            f"among hallucinations {among}"
        )
    lines += [f"{judge} abstained on {count}" for judge, count in report.abstained.items() if count]
    return "\n".join([*lines, ""])
