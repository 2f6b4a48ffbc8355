"""The table and the JSON of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.measuring import Round, middle, ratios

Rounds = Mapping[str, Sequence[Round]]


def quantile_ms(times: Sequence[float], percent: float) -> float:
    """A percentile of seconds, in milliseconds."""
    return float(np.percentile(np.array(times), percent)) * 1e3 if times else float("nan")


def _p50_p99(times: Sequence[float]) -> str:
    return f"{quantile_ms(times, 50):.2f} / {quantile_ms(times, 99):.2f} ms"


def _p50(of: Round) -> float:
    return quantile_ms(of.sample.latency, 50)


def _first(of: Round) -> float:
    return quantile_ms(of.sample.first_event, 50)


def _rate(of: Round) -> float:
    return of.sample.per_second


def _events(of: Round) -> float:
    return of.sample.events / of.sample.seconds


class Report:
    """Figures, kept as they come; `None` as target means that the figure is only told."""

    def __init__(self, console: Console, machine: Mapping[str, object]) -> None:
        self.console = console
        self._machine = machine
        self._rows: list[dict[str, Any]] = []
        self._rounds: dict[str, Any] = {}

    def throughput(self, rounds: Rounds) -> None:
        """Whole answers at 32 connections."""
        self._keep("throughput", rounds)
        for name, each in rounds.items():
            self._row(f"{name}, 32 connections", _range([_rate(r) for r in each], "{:.0f}"), "requests/s")
        for name in [name for name in rounds if name != "relay"]:
            target = 0.6 if name == "plain" else None
            values = ratios(rounds[name], rounds["relay"], _rate)
            self._row(f"{name} / relay, requests/s", _range(values, "{:.2f}"), "", target, median(values), least=True)
        self._cpu(rounds)

    def _cpu(self, rounds: Rounds) -> None:
        relay = min(r.cpu_ms for r in rounds["relay"])
        for name, each in rounds.items():
            # The least of the rounds: other work on the machine only ever adds (cold caches, a shared core).
            least = min(r.cpu_ms for r in each)
            more = f", relay / {name} = {relay / least:.2f}" if name != "relay" else ""
            self._row(f"{name}, processor time a request", f"{least:.3f} ms{more}", "least")
            if name != "relay":
                self._row(f"{name}, Postgres beside it", f"{min(r.beside_ms for r in each):.3f} ms", "least")

    def latency(self, rounds: Rounds) -> None:
        """One caller."""
        self._keep("latency", rounds)
        for name, each in rounds.items():
            times = [t for r in each for t in r.sample.latency]
            self._row(f"{name}, 1 connection", _p50_p99(times), "p50 / p99")
        self._added("added at the median, 1 connection", rounds, _p50, 0.6)

    def first_event(self, rounds: Rounds) -> None:
        """Streams of one caller."""
        self._keep("first_event", rounds)
        for name, each in rounds.items():
            times = [t for r in each for t in r.sample.first_event]
            self._row(f"{name}, first event", _p50_p99(times), "p50 / p99")
        self._added("added to the first event", rounds, _first, 5.0)

    def _added(self, what: str, rounds: Rounds, of: Callable[[Round], float], target: float) -> None:
        for name in [name for name in rounds if name != "relay"]:
            values = [of(a) - of(b) for a, b in zip(rounds[name], rounds["relay"], strict=True)]
            limit = target if name == "plain" else None
            self._row(f"{name}, {what}", _range(values, "{:.2f}"), "ms", limit, median(values), least=False)

    def streams(self, rounds: Rounds) -> None:
        """Streams of 66 events at 32 connections."""
        self._keep("streams", rounds)
        for name, each in rounds.items():
            rate = f"{middle(each, _events):.0f} events/s, {middle(each, _rate):.0f} streams/s"
            self._row(f"{name}, streams, 32 connections", rate, "")
            self._row(f"{name}, processor time a stream", f"{min(r.cpu_ms for r in each):.3f} ms", "least")
        values = ratios(rounds["plain"], rounds["relay"], _events)
        self._row("plain / relay, events/s", _range(values, "{:.2f}"), "")

    def grounding(self, stage: tuple[int, float, float]) -> None:
        """Encode and search, by the gateway's clock."""
        count, middle_ms, tail_ms = stage
        self._row(
            "grounding (encode + search)",
            f"{middle_ms:.2f} / {tail_ms:.2f} ms",
            f"p50 / p99 of {count}",
            10.0,
            middle_ms,
            least=False,
        )

    def checks(self, rounds: Rounds) -> None:
        """Checked answers."""
        self._keep("checks", rounds)
        for name, each in rounds.items():
            self._row(f"{name}, 4 connections", _range([_rate(r) for r in each], "{:.1f}"), "requests/s")
            self._row(f"{name}, processor time a request", f"{min(r.cpu_ms for r in each):.1f} ms", "least")

    def memory(self, sizes: Sequence[tuple[int, float]]) -> None:
        """Resident memory after so many requests."""
        told = ", ".join(f"{mb:.0f}" for _, mb in sizes)
        self._row("worker's memory", told, "MB", 500.0, max(mb for _, mb in sizes), least=False)
        # The first fifth fills pools and caches; from then on it should stay.
        grown = sizes[-1][1] - sizes[1][1]
        per = f"MB from request {sizes[1][0]:,} to {sizes[-1][0]:,}"
        self._row("worker's memory, growth", f"{grown:+.1f}", per, 0.05 * sizes[1][1], grown, least=False)

    def completeness(self, made: int, rows: tuple[int, int], lines: int) -> None:
        """Requests made against rows and summary lines."""
        whole = float(rows == (made, made) and lines == made)
        told = f"{made} requests, {rows[0]} rows, {rows[1]} ids, {lines} log lines"
        self._row("the ledger is complete", told, "", 1.0, whole, least=True)

    def print(self) -> None:
        """The table."""
        table = Table("what", "figure", "", "target", box=None, padding=(0, 2, 0, 0))
        for row in self._rows:
            style = {True: "green", False: "red", None: ""}[row["met"]]
            table.add_row(row["what"], row["figure"], row["unit"], row["target"], style=style)
        self.console.print(table)

    def as_json(self) -> dict[str, Any]:
        """Everything, each round included."""
        return {"machine": dict(self._machine), "rows": self._rows, "rounds": self._rounds}

    @property
    def met(self) -> bool:
        """No target was missed."""
        return all(row["met"] is not False for row in self._rows)

    def _row(
        self,
        what: str,
        figure: str,
        unit: str,
        target: float | None = None,
        value: float = 0.0,
        *,
        least: bool = False,
    ) -> None:
        met = None if target is None else bool(value >= target if least else value <= target)
        told = "" if target is None else f"{'>=' if least else '<='} {target:g}"
        self._rows.append({"what": what, "figure": figure, "unit": unit, "target": told, "met": met})

    def _keep(self, part: str, rounds: Rounds) -> None:
        failed = {name: sum(r.sample.failed for r in each) for name, each in rounds.items()}
        for name, count in failed.items():
            if count:
                why = next(r.sample.last_failure for r in rounds[name] if r.sample.failed)
                self._row(f"{name}, requests that failed", str(count), why, 0.0, count, least=False)
        self._rounds[part] = {
            name: [
                {
                    "requests": len(r.sample.latency),
                    "failed": r.sample.failed,
                    "per_second": _rate(r),
                    "p50_ms": _p50(r),
                    "p99_ms": quantile_ms(r.sample.latency, 99),
                    "first_event_p50_ms": _first(r),
                    "events_per_second": _events(r),
                    "cpu_ms": r.cpu_ms,
                    "postgres_cpu_ms": r.beside_ms,
                }
                for r in each
            ]
            for name, each in rounds.items()
        }


def _range(values: Sequence[float], form: str) -> str:
    middle_value, low, high = (form.format(v) for v in (median(values), min(values), max(values)))
    return f"{middle_value} ({low} to {high})"
