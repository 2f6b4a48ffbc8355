"""`verdicts sample` and `verdicts error-rate`: a seeded, stratified sample of verdicts, and how many of all are wrong.

A sample is a file: which facts, of which stratum, and how large that is. The labels stay in the ledger. A verdict is
wrong where the route's own table gives the person's label another status.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from checks.errors import LabelledDataError
from checks.evaluate.sampling import Rate, Stratum, allocate, rate
from checks.facts.aggregate import Aggregation
from checks.types import FactLabel, IssueLabel, Status
from gateway.app.judging import aggregation_of
from gateway.cli.ledger import with_config, with_store
from gateway.cli.output import OK, USAGE, emit, fail, note
from gateway.config.model import FactCheckConfig, GatewayConfig
from gateway.ledger.labels import Drawn, Labels, Place, Span
from gateway.ledger.store import PostgresStore

_ISSUES: Final[Mapping[str, str]] = {IssueLabel.VALID: Status.PASSED, IssueLabel.HALLUCINATION: Status.FAILED}


class SampledFact(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a sample. `stratum_size` counts all verdicts of this status and label when the sample was drawn."""

    exchange: str
    check: int
    fact: int
    route: str
    kind: str
    status: str
    label: str
    stratum_size: int

    @property
    def place(self) -> Place:
        return Place(self.exchange, self.check, self.fact)


_decoder = msgspec.json.Decoder(SampledFact)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A labelled fact of the sample: whether its verdict is wrong, None where the label decides nothing."""

    fact: SampledFact
    wrong: bool | None


def sample(config_path: Path, span: Span, *, count: int, seed: int, output: Path | None) -> int:
    """Draw a sample of a route's verdicts and write it."""
    if output is not None and output.exists():
        fail(f"{output} exists", "remove it, or name another file", USAGE)

    async def draw(store: PostgresStore) -> list[Drawn]:
        return await Labels(store).draw(span, count=count, seed=seed)

    drawn = with_store(config_path, draw)
    if not drawn:
        fail(f"there are no verdicts of route '{span.route}' to draw from", "widen --since and --until")
    strata: dict[tuple[str, str], list[Drawn]] = defaultdict(list)
    for fact in drawn:
        strata[fact.status, fact.label].append(fact)
    taken = allocate({key: own[0].size for key, own in strata.items()}, count)
    lines = [_line(fact, str(span.route)) for key, own in strata.items() for fact in own[: taken[key]]]
    text = b"\n".join(lines).decode()
    if output is None:
        print(text)
    else:
        output.write_text(f"{text}\n", encoding="utf-8")
    total = sum(own[0].size for own in strata.values())
    note(f"{len(lines)} of {total} verdicts in {len(strata)} strata; label them: grounding-gateway label --sample FILE")
    return OK


def _line(fact: Drawn, route: str) -> bytes:
    place = fact.place
    return msgspec.json.encode(
        SampledFact(
            exchange=place.exchange_id,
            check=place.check,
            fact=place.fact,
            route=route,
            kind=fact.kind,
            status=fact.status,
            label=fact.label,
            stratum_size=fact.size,
        )
    )


def read_sample(file: Path) -> list[SampledFact]:
    """The facts of a sample's file. Raises `LabelledDataError` or `OSError`."""
    found = []
    for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
        if line.strip():
            try:
                found.append(_decoder.decode(line))
            except msgspec.MsgspecError as error:
                raise LabelledDataError(
                    f"{file}:{number}: {error}", hint="give a file that `verdicts sample` wrote"
                ) from error
    return found


def error_rate(config_path: Path, file: Path, *, by: str | None, as_json: bool) -> int:
    """Print the share of wrong verdicts, over all and within each stratum."""
    facts = read_sample(file)

    async def read(config: GatewayConfig, store: PostgresStore) -> list[_Outcome]:
        labels = Labels(store)
        found = []
        for fact in facts:
            own = [
                label["label"]
                for label in await labels.of(fact.exchange)
                if label["current"]
                and (label["check"] or 0, label["fact"]) == (fact.check, fact.fact)
                and (by is None or label["labeller"] == by)
            ]
            if own:
                found.append(_Outcome(fact, _wrong(fact, own, _table(config, fact))))
        return found

    outcomes = with_config(config_path, read)
    if not outcomes:
        fail("none of these facts has a label", f"label them: grounding-gateway label --sample {file}")
    _report(facts, outcomes, as_json=as_json)
    return OK


def _table(config: GatewayConfig, fact: SampledFact) -> Callable[[str], str | None]:
    """What a label makes of a fact: a status, or None where it decides nothing."""
    if fact.kind == "code_review":
        return _ISSUES.get
    route = config.routes.get(fact.route)
    check = route.check if route is not None else None
    settings = aggregation_of(check.aggregation) if isinstance(check, FactCheckConfig) else Aggregation()
    return lambda label: settings.status(FactLabel(label))


def _wrong(fact: SampledFact, labels: Sequence[str], status_of: Callable[[str], str | None]) -> bool | None:
    """Whether the majority of the labels gives another status than the verdict; None for a tie, or no decision."""
    said = Counter(status for label in labels if (status := status_of(label)) is not None).most_common(2)
    if not said or (len(said) == 2 and said[0][1] == said[1][1]):
        return None
    return said[0][0] != fact.status


def _report(facts: Sequence[SampledFact], outcomes: Sequence[_Outcome], *, as_json: bool) -> None:
    strata: dict[tuple[str, str], Stratum] = {}
    drawn = Counter((fact.status, fact.label) for fact in facts)
    for fact in facts:
        key = fact.status, fact.label
        if key not in strata:
            own = [each.wrong for each in outcomes if (each.fact.status, each.fact.label) == key]
            decided = [wrong for wrong in own if wrong is not None]
            strata[key] = Stratum(fact.stratum_size, len(decided), sum(decided))
    lines = [
        ("all", "", strata.values(), len(facts)),
        *(
            (f"{status}", "(all)", [s for key, s in strata.items() if key[0] == status], _count(drawn, status))
            for status in dict.fromkeys(status for status, _ in strata)
        ),
        *((status, label, [stratum], drawn[status, label]) for (status, label), stratum in strata.items()),
    ]
    rows = [_row(status, label, list(own), asked) for status, label, own, asked in lines]
    undecided = sum(each.wrong is None for each in outcomes)
    data = {"strata": rows, "undecided": undecided, "unlabelled": len(facts) - len(outcomes)}
    columns = ("verdict", "label", "verdicts", "drawn", "labelled", "wrong", "error rate", "95%")
    table = (columns, [_cells(row) for row in rows])
    said = f"{undecided} labelled facts decide nothing, {len(facts) - len(outcomes)} are not labelled yet"
    if (covered := rows[0]["covered"]) < rows[0]["size"]:
        said += f"; strata without a label are left out: the figures speak for {covered} of {rows[0]['size']} verdicts"
    emit(data, as_json=as_json, table=table, text=said)


def _count(drawn: Mapping[tuple[str, str], int], status: str) -> int:
    return sum(count for key, count in drawn.items() if key[0] == status)


def _row(status: str, label: str, strata: Iterable[Stratum], asked: int) -> dict[str, Any]:
    own = list(strata)
    found: Rate | None = rate(own)
    return {
        "status": status,
        "label": label,
        "size": sum(stratum.size for stratum in own),
        "drawn": asked,
        "labelled": sum(stratum.judged for stratum in own),
        "wrong": sum(stratum.wrong for stratum in own),
        "error_rate": found.value if found else None,
        "low": found.low if found else None,
        "high": found.high if found else None,
        "covered": found.covered if found else 0,
    }


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    rate_, interval = "-", "-"
    if row["error_rate"] is not None:
        rate_, interval = f"{row['error_rate']:.1%}", f"{row['low']:.1%} to {row['high']:.1%}"
    return row["status"], row["label"], row["size"], row["drawn"], row["labelled"], row["wrong"], rate_, interval
