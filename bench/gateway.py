"""Our gateway beside a bare relay on the same server, in one run, with its ledger on.

    python -m bench.gateway [--rounds 5] [--seconds 2] [--requests 50000] [--passages 10000] [--no-check] [--only PART]

Starts a fast stand-in for a model server, the bare relay (`bench.servers.relay`) and one real gateway worker over its
own Postgres, and loads them in turn: each figure comes from interleaved rounds, and each ratio from the two bursts of
one round, because other work on the machine changes from second to second. Processor time per request is read from the
kernel's account of the process, which such work disturbs least.

Routes: `plain` (nothing but the relay's work and the record), `grounded` (encode and search over 10,000 passages),
`checked` (the same, and the answer's facts checked while it streams), `detached` (checked after the client was served).
Prints a table, writes bench/results/gateway.json, and ends with 1 when a target is missed. README.md beside this file
says how to read it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop
from rich.console import Console

from bench.measuring import Plan, interleaved, settled
from bench.processes import machine
from bench.report import Report
from bench.setting import Setting, start

RESULTS = Path(__file__).parent / "results"
MANY = 32
FEW = 4
MEMORY_PARTS = 5


class Bench:
    """The parts of a run, over one set of servers."""

    def __init__(self, setting: Setting, report: Report, options: argparse.Namespace) -> None:
        self._setting = setting
        self._report = report
        self._options = options
        self.parts: dict[str, Callable[[], Awaitable[None]]] = {
            "throughput": self.throughput,
            "latency": self.latency,
            "streams": self.streams,
            "grounding": self.grounding,
            "checks": self.checks,
            "memory": self.memory,
        }

    def _plan(self, connections: int, requests: int = 10**9) -> Plan:
        return Plan(
            connections=connections, seconds=self._options.seconds, requests=requests, rounds=self._options.rounds
        )

    async def throughput(self) -> None:
        """Requests per second at 32 connections."""
        contenders = self._setting.contenders("relay", "plain", "grounded")
        self._report.throughput(await interleaved(contenders, self._plan(MANY)))

    async def latency(self) -> None:
        """What one caller waits."""
        checked = () if self._options.no_check else ("checked", "detached")
        contenders = self._setting.contenders("relay", "plain", "grounded", *checked)
        self._report.latency(await interleaved(contenders, self._plan(1, 1000)))

    async def streams(self) -> None:
        """Time to the first event for one caller, events per second for 32."""
        contenders = self._setting.contenders("relay", "plain", "grounded", stream=True)
        self._report.first_event(await interleaved(contenders, self._plan(1, 1000)))
        self._report.streams(await interleaved(contenders[:2], self._plan(MANY)))

    async def grounding(self) -> None:
        """Encode and search, one caller at a time."""
        contenders = self._setting.contenders("grounded")
        await interleaved(contenders, self._plan(1, 300))
        latest = contenders[0].made
        self._report.grounding(await self._setting.ledger.stage_ms("grounded", "retrieval", latest))

    async def checks(self) -> None:
        """Checked answers per second: before the client has them, and after."""
        if not self._options.no_check:
            contenders = self._setting.contenders("checked", "detached")
            self._report.checks(await interleaved(contenders, self._plan(FEW, 60)))

    async def memory(self) -> None:
        """Resident memory of the worker while it serves so many requests."""
        contenders = self._setting.contenders("plain")
        each = self._options.requests // MEMORY_PARTS
        plan = Plan(connections=MANY, seconds=3600, requests=each, rounds=1, warm_up=False)
        sizes = [(0, self._setting.gateway.rss_mb())]
        for part in range(MEMORY_PARTS):
            await interleaved(contenders, plan)
            sizes.append(((part + 1) * each, self._setting.gateway.rss_mb()))
        self._report.memory(sizes)

    async def completeness(self) -> None:
        """Every request is one row and one line."""
        settled(self._setting.gateway_port)
        lines = self._setting.gateway.log_lines('"event":"exchange"')
        self._report.completeness(self._setting.made(), await self._setting.ledger.rows(), lines)


async def run(options: argparse.Namespace) -> Report:
    """All parts, one after another."""
    report = Report(Console(width=140), machine())
    async with AsyncExitStack() as stack:
        report.console.print("starting the servers (the first run encodes the collection) ...", style="dim")
        setting = await start(RESULTS, passages=options.passages, checking=not options.no_check, stack=stack)
        bench = Bench(setting, report, options)
        for name, part in bench.parts.items():
            if not options.only or name in options.only:
                report.console.print(f"measuring {name} ...", style="dim")
                await part()
        await bench.completeness()
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds of each part")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one burst")
    parser.add_argument("--requests", type=int, default=50_000, help="requests of the memory part")
    parser.add_argument("--passages", type=int, default=10_000, help="size of the collection")
    parser.add_argument("--no-check", action="store_true", help="leave the checked routes out")
    parser.add_argument("--only", action="append", help="throughput, latency, streams, ...; may be given again")
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    report = uvloop.run(run(options))
    report.print()
    path = RESULTS / "gateway.json"
    path.write_text(json.dumps(report.as_json(), indent=1))
    report.console.print(f"written to {path}", style="dim")
    sys.exit(0 if report.met else 1)


if __name__ == "__main__":
    main()
