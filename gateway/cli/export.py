"""`verdicts export`: the ledger as JSON Lines, CSV or Parquet, page by page, oldest first.

JSON Lines hold everything about an exchange, as `verdicts show` prints it. CSV and Parquet are tables with one row a
fact (an exchange without facts has one row with these columns empty). Knows nothing of SQL.
"""

from __future__ import annotations

import asyncio
import csv
import os
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final, Literal, Protocol

import msgspec

from gateway.app.serving import open_database
from gateway.cli.output import USAGE, fail, note
from gateway.config.load import load
from gateway.ledger.store import ExchangeFilter, PostgresStore

_PAGE: Final = 200
_ROWS_OF_GROUP: Final = 10_000

COLUMNS: Final[dict[str, type]] = {
    "exchange_id": str,
    "created_at": datetime,
    "route": str,
    "key_id": str,
    "model": str,
    "upstream_model": str,
    "config_version": str,
    "outcome": str,
    "status": int,
    "retrieval_status": str,
    "check_status": str,
    "check_reason": str,
    "choice": int,
    "attempt": int,
    "check_kind": str,
    "check_action": str,
    "fact": int,
    "start": int,
    "end": int,
    "fact_status": str,
    "fact_label": str,
    "fact_reason": str,
    "fact_score": float,
    "rule": str,
    "sources": str,
    "labels": str,
    "text": str,
    "query": str,
    "answer": str,
}
"""Columns of a table's row, in order. `labels` and `sources` hold several values, separated by a space."""

TEXTS: Final = ("text", "query", "answer")
"""Columns that hold words of a conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What to write and where; None is standard output. `cursor` goes on after an earlier export."""

    format: Literal["jsonl", "csv", "parquet"]
    output: Path | None
    cursor: str | None = None
    texts: bool = True


class _Writer(Protocol):
    """Takes exchanges in order."""

    def write(self, exchange: dict[str, Any]) -> None: ...

    def flush(self) -> None:
        """What was written so far is in the file."""
        ...


def export(config_path: Path, filters: ExchangeFilter, options: ExportOptions) -> int:
    """Write every exchange that fits. An export that breaks off says how to go on."""
    if options.format == "parquet":
        if options.output is None:
            fail("Parquet is written to a file", hint="name it: --output verdicts.parquet", code=USAGE)
        _require_pyarrow()
    if options.output is not None and options.output.exists() and (options.cursor is None or _is_parquet(options)):
        fail(f"{options.output} exists", hint="remove it, or name another file", code=USAGE)
    written, cursor = 0, options.cursor
    try:
        with ExitStack() as stack:
            writer = _writer(options, stack)
            for exchanges, cursor_after in _pages(config_path, filters, options.cursor):
                for exchange in exchanges:
                    writer.write(exchange if options.texts else without_texts(exchange))
                writer.flush()
                written, cursor = written + len(exchanges), cursor_after or cursor
    except BaseException:
        if written and not _is_parquet(options):
            note(f"broke off after {written} exchanges; to go on: --cursor {cursor}")
        raise
    note(f"{written} exchanges" + (f"; what comes later: --cursor {cursor}" if cursor else ""))
    return 0


def _is_parquet(options: ExportOptions) -> bool:
    return options.format == "parquet"


def _pages(
    config_path: Path, filters: ExchangeFilter, cursor: str | None
) -> Iterator[tuple[list[dict[str, Any]], str | None]]:
    """Pages of whole exchanges, each with the cursor after it. One is read while nothing else is kept."""
    config = load(config_path, os.environ)
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            url, _ = runner.run(open_database(config, stack))
            store = PostgresStore(url)
            stack.push_async_callback(store.aclose)
            while True:
                page = runner.run(store.whole_exchanges(filters, cursor=cursor, limit=_PAGE))
                yield page.items, page.cursor
                if len(page.items) < _PAGE:
                    return
                cursor = page.cursor
        finally:
            runner.run(stack.aclose())


def rows_of(exchange: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An exchange as rows of a table: one a fact, or one when it has none."""
    body = exchange.get("body") or {}
    answers = body.get("answers") or {}
    whole = {
        "exchange_id": exchange["id"],
        **{name: exchange[name] for name in COLUMNS if name in exchange and name not in ("labels", "sources")},
        "created_at": datetime.fromisoformat(exchange["created_at"]),
        "query": body.get("query"),
        "labels": _labels(exchange, None),
    }
    empty = True
    for position, check in enumerate(exchange["checks"]):
        of_check = {
            "choice": check["choice"],
            "attempt": check["attempt"],
            "check_kind": check["kind"],
            "check_action": check["action"],
            "answer": answers.get(str(check["choice"])),
        }
        for fact in check["facts"]:
            empty = False
            yield {
                **whole,
                **of_check,
                **_fact_columns(fact),
                "labels": _labels(exchange, (position, fact["position"])),
            }
    if empty:
        yield {**whole, "answer": answers.get("0")}


def _fact_columns(fact: dict[str, Any]) -> dict[str, Any]:
    return {
        "fact": fact["position"],
        "start": fact["start"],
        "end": fact["end"],
        "fact_status": fact["status"],
        "fact_label": fact["label"],
        "fact_reason": fact["reason"],
        "fact_score": fact["score"],
        "rule": fact["rule"],
        "sources": " ".join(str(evidence["source"]) for evidence in fact["evidence"]),
        "text": fact["text"],
    }


def _labels(exchange: dict[str, Any], place: tuple[int, int] | None) -> str:
    """People's labels on a fact, or with None on the whole answer."""
    found = []
    for label in exchange["labels"]:
        fact = label.get("fact_position")
        here = None if fact is None else (label.get("check_position") or 0, fact)
        if here == place:
            found.append(label["label"])
    return " ".join(found)


def without_texts(exchange: dict[str, Any]) -> dict[str, Any]:
    """The exchange without words of its conversation and of documents: verdicts, numbers and names stay."""
    kept = {**exchange, "body": None}
    kept["sources"] = [{**source, "text": ""} for source in exchange["sources"]]
    kept["checks"] = [_without_words(check) for check in exchange["checks"]]
    kept["labels"] = [{**label, "comment": ""} for label in exchange["labels"]]
    return kept


def _without_words(check: dict[str, Any]) -> dict[str, Any]:
    facts = [
        {
            **fact,
            "text": "",
            "questions": [],
            "detail": {},
            "issue": None,
            "evidence": [{**evidence, "quote": ""} for evidence in fact["evidence"]],
        }
        for fact in check["facts"]
    ]
    calls = [{**call, "request": "", "reply": ""} for call in check["calls"]]
    return {**check, "detail": "", "details": {}, "facts": facts, "calls": calls}


# -- writers -----------------------------------------------------------------------------------------------------------


def _writer(options: ExportOptions, stack: ExitStack) -> _Writer:
    if options.format == "parquet":
        assert options.output is not None
        return _ParquetWriter(options.output, stack)
    file: IO[str] = sys.stdout
    begins = options.cursor is None
    if options.output is not None:
        begins = begins or not options.output.exists()
        file = stack.enter_context(options.output.open("a", encoding="utf-8", newline=""))
    return _JsonLines(file) if options.format == "jsonl" else _Csv(file, with_header=begins)


class _JsonLines:
    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, exchange: dict[str, Any]) -> None:
        self._file.write(msgspec.json.encode(exchange).decode() + "\n")

    def flush(self) -> None:
        self._file.flush()


class _Csv:
    """Cells that a spreadsheet would run as a formula get a quotation mark before them (OWASP, CSV injection)."""

    def __init__(self, file: IO[str], *, with_header: bool) -> None:
        self._file = file
        self._rows = csv.DictWriter(file, list(COLUMNS), restval="")
        if with_header:
            self._rows.writeheader()

    def write(self, exchange: dict[str, Any]) -> None:
        for row in rows_of(exchange):
            self._rows.writerow({name: _cell(value) for name, value in row.items()})

    def flush(self) -> None:
        self._file.flush()


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value


class _ParquetWriter:
    """Writes a group of rows whenever enough have come; the file is whole once it is closed."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        import pyarrow
        from pyarrow import parquet

        kinds = {
            str: pyarrow.string(),
            int: pyarrow.int64(),
            float: pyarrow.float64(),
            datetime: pyarrow.timestamp("us", tz="UTC"),
        }
        self._schema = pyarrow.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
        self._make = pyarrow.Table.from_pylist
        self._rows: list[dict[str, Any]] = []
        self._file = stack.enter_context(parquet.ParquetWriter(path, self._schema, compression="zstd"))
        stack.callback(self._write_group)

    def write(self, exchange: dict[str, Any]) -> None:
        self._rows.extend(rows_of(exchange))
        if len(self._rows) >= _ROWS_OF_GROUP:
            self._write_group()

    def flush(self) -> None:
        """Nothing: a group that is written too early makes the file larger."""

    def _write_group(self) -> None:
        if self._rows:
            self._file.write_table(self._make(self._rows, schema=self._schema))
            self._rows = []


def _require_pyarrow() -> None:
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        fail(
            "Parquet needs the package pyarrow, which a serving install leaves out",
            hint="pip install 'grounding-gateway[export]', or use --format csv",
            code=USAGE,
        )
