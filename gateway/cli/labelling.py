"""`grounding-gateway label`: one fact after another in a terminal, one keystroke each.

The verdict is not shown until it is asked for, since it would lead the labeller. Each keystroke is kept at once. Knows
nothing of SQL.
"""

from __future__ import annotations

import os
import sys
import termios
import textwrap
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checks.types import FACT_LABELS, IssueLabel
from gateway.cli.ledger import with_store
from gateway.cli.output import OK, USAGE, fail, note, printable
from gateway.cli.sampling import read_sample
from gateway.ledger.labels import Label, Labels, Place, QueueOrder, Span
from gateway.ledger.store import PostgresStore

_WIDTH: Final = 100
_AROUND: Final = 300
_SHORT: Final = 400
_QUIT: Final = "q"
_CLOSED: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the labeller `by` is asked about: a queue, or the facts of a sample's file."""

    span: Span
    order: QueueOrder
    seed: int
    limit: int
    by: str
    sample: Path | None


def ask(config_path: Path, asked: Asked) -> int:
    """Show facts until there are no more, or `q`."""
    if not sys.stdin.isatty():
        fail(
            "labelling one by one needs a terminal",
            "use `label set` or `label import`, or the HTTP API",
            USAGE,
        )
    sampled = None if asked.sample is None else [each.place for each in read_sample(asked.sample)]

    async def work(store: PostgresStore) -> int:
        labels = Labels(store)
        if sampled is None:
            places = await labels.queue(asked.span, asked.by, order=asked.order, seed=asked.seed, limit=asked.limit)
        else:
            places = sampled
        return await _ask_all(store, labels, places, asked.by)

    kept = with_store(config_path, work)
    note(f"{kept} labels by {asked.by}")
    return OK


async def _ask_all(store: PostgresStore, labels: Labels, places: Sequence[Place], by: str) -> int:
    kept, terminal = 0, Terminal(sys.stdin.fileno())
    if not places:
        note("nothing is left to label here")
    for number, place in enumerate(places, 1):
        exchange = await store.get_exchange(place.exchange_id)
        if any(
            (label["check_position"] or 0, label["fact_position"], label["labeller"]) == (place.check, place.fact, by)
            for label in exchange["labels"]
        ):
            continue  # labelled in an earlier sitting
        sheet = Sheet(exchange, place)
        print(f"\n{number} of {len(places)}")
        print(sheet.shown())
        given = sheet.ask(by, terminal)
        if given is None:
            break
        if given.label:
            await labels.add(given)
            kept += 1
            print(f"{given.label}\n")
    return kept


class Terminal:
    """Reads single keys, and lines where a line is wanted.

    A key typed early is not lost: what has come is kept whenever the terminal's mode changes.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def key(self) -> str:
        """The next key; "" when the terminal has gone."""
        with self._by_key():
            return os.read(self._descriptor, 1).decode("ascii", "replace")

    def line(self, prompt: str) -> str:
        """A line, typed and corrected as usual."""
        try:
            return input(prompt)
        except EOFError:
            return ""

    @contextmanager
    def _by_key(self) -> Iterator[None]:
        before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor, termios.TCSADRAIN)
        try:
            yield
        finally:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, before)


class Sheet:
    """One fact or issue as it is put before a person."""

    def __init__(self, exchange: Mapping[str, Any], place: Place) -> None:
        self._place = place
        self._exchange = exchange
        self._check = exchange["checks"][place.check]
        self._fact = next(fact for fact in self._check["facts"] if fact["position"] == place.fact)
        issue = self._check["kind"] == "code_review"
        self._labels: tuple[str, ...] = tuple(IssueLabel) if issue else FACT_LABELS

    def shown(self, *, whole: bool = False) -> str:
        """Question, fact within its answer, passages or code location; the texts cut unless `whole`."""
        body = self._exchange["body"] or {}
        answer = (body.get("answers") or {}).get(str(self._check["choice"]), "")
        fact = self._fact
        lines = [f"{self._place.exchange_id}, route {self._exchange['route']}"]
        if body.get("query"):
            lines.append(_paragraph("asked", body["query"], whole=whole))
        if answer[fact["start"] : fact["end"]] == fact["text"]:
            before, after = answer[: fact["start"]], answer[fact["end"] :]
            around = f"{before[-_AROUND:]}>>>{fact['text']}<<<{after[:_AROUND]}"
            lines.append(_paragraph("answer", around, whole=True))
        lines.append(_paragraph("fact" if fact["issue"] is None else "issue", fact["text"], whole=True))
        lines += [_paragraph(name, text, whole=whole) for name, text in self._beside()]
        return "\n".join(lines)

    def _beside(self) -> list[tuple[str, str]]:
        """What a label can rest on: passages, or where an issue points and what the judges said."""
        issue = self._fact["issue"]
        if issue is not None:
            line = f":{issue['start_line']}" if issue.get("start_line") else ""
            return [("at", f"{issue.get('path') or '-'}{line}")]
        seen = {evidence["source"]: evidence for evidence in self._fact["evidence"]}
        return [
            (f"[{source['number']}]", f"{source['title']}: {seen[source['number']]['quote'] or source['text']}")
            for source in self._exchange["sources"]
            if source["number"] in seen
        ]

    def verdict(self) -> str:
        """What the check decided, and why."""
        fact = self._fact
        return printable(f"verdict: {fact['status']}, {fact['label'] or fact['reason']}; rule: {fact['rule']}")

    def ask(self, by: str, terminal: Terminal) -> Label | None:
        """The label given, one with an empty `label` for a skipped fact, None to stop."""
        source = comment = ""
        keys = {str(number): label for number, label in enumerate(self._labels, 1)}
        menu = "  ".join(f"{key} {label}" for key, label in keys.items())
        while True:
            print(f"{menu}\ns source  c comment  p whole texts  v verdict  enter skip  q quit > ", end="", flush=True)
            key = terminal.key()
            print()
            if key in (_QUIT, _CLOSED):
                return None
            if key == "s":
                source = terminal.line("source: ") or source
            elif key == "c":
                comment = terminal.line("comment: ") or comment
            elif key == "p":
                print(self.shown(whole=True))
            elif key == "v":
                print(self.verdict())
            elif key in keys or key in ("\r", "\n"):
                place = self._place
                return Label(
                    exchange_id=place.exchange_id,
                    check=place.check,
                    fact=place.fact,
                    label=keys.get(key, ""),
                    labeller=by,
                    source=source,
                    comment=comment,
                )


def _paragraph(name: str, text: str, *, whole: bool) -> str:
    text = " ".join(printable(line) for line in text.split("\n"))
    if not whole and len(text) > _SHORT:
        text = text[:_SHORT] + "..."
    return textwrap.fill(text, _WIDTH, initial_indent=f"{name:>7}  ", subsequent_indent=" " * 9)
