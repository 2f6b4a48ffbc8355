"""What commands share: data to standard output as JSON or as a table, errors to standard error, exit codes.

Knows nothing of any command. Text from documents and requests is shown without its control characters, which a terminal
would obey.
"""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from checks.errors import ChecksError
from gateway.errors import (
    ConfigError,
    GatewayError,
    LedgerError,
    NotFoundError,
    OverloadedError,
    RequestError,
    UpstreamError,
)
from retrieval.errors import RetrievalError

OK: Final = 0
FAILED: Final = 1
"""A failed check or verdict, or nothing found."""
USAGE: Final = 2
"""A wrong command line or configuration."""
ENVIRONMENT: Final = 3
"""A port taken, a full disk, Postgres or an upstream away."""

Table = tuple[Sequence[str], Sequence[Sequence[object]]]
"""Column names and rows. On a terminal they are aligned, elsewhere separated by tabs, nothing cut."""

_CONTROL: Final = dict.fromkeys((*range(32), 127, *range(128, 160))) | {0x0A: " ", 0x09: " "}

# JSON itself escapes only those below 32.
_ESCAPED: Final = {code: f"\\u{code:04x}" for code in (127, *range(128, 160))}


def printable(value: object) -> str:
    """A value as one line of text that a terminal can be shown."""
    return "" if value is None else str(value).translate(_CONTROL)


def emit(data: Any, *, as_json: bool, table: Table | None = None, text: str | None = None) -> None:
    """Print a command's result: `data` as JSON, or for people the table, then the text (`data` if there is neither)."""
    if as_json or (table is None and text is None):
        print(json.dumps(data, ensure_ascii=False, indent=2, default=str).translate(_ESCAPED))
        return
    if table is not None:
        _print_table(*table)
    if text is not None:
        print(_lines(text))


def _print_table(columns: Sequence[str], cells: Sequence[Sequence[object]]) -> None:
    rows = [[printable(cell) for cell in row] for row in cells]
    if not sys.stdout.isatty():
        for row in (list(columns), *rows):
            print("\t".join(row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    Console().print(shown)


def note(text: str) -> None:
    """Something a person should know beside the result."""
    print(_lines(text), file=sys.stderr)


def _lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))


def fail(message: str, hint: str = "", code: int = FAILED) -> NoReturn:
    """Print what went wrong and what to do, and end the process with an exit code."""
    note(f"error: {message}")
    if hint:
        note(f"hint: {hint}")
    raise SystemExit(code)


def fail_with(error: Exception) -> NoReturn:
    """End the process for an error: the message and code of a known one; an unknown one is raised again."""
    if isinstance(error, ConfigError):
        problems = error.problems or (error.message,)
        for problem in problems:
            note(problem)
        fail(f"the configuration has {_counted(len(problems), 'problem')}", code=USAGE)
    if isinstance(error, GatewayError):
        fail(error.message, code=exit_code(error))
    if isinstance(error, RetrievalError | ChecksError):
        fail(str(error), error.hint)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        fail(f"{place}{error.strerror or error}", _os_hint(error), ENVIRONMENT)
    raise error


def exit_code(error: GatewayError) -> int:
    """The exit code that an error of the gateway stands for."""
    if isinstance(error, NotFoundError):
        return FAILED
    if isinstance(error, ConfigError | RequestError):
        return USAGE
    if isinstance(error, LedgerError | OverloadedError | UpstreamError):
        return ENVIRONMENT
    return FAILED


def _os_hint(error: OSError) -> str:
    return {
        errno.EADDRINUSE: "another process listens there; stop it, or choose another port",
        errno.EACCES: "check the permissions, or the port (below 1024 needs rights)",
        errno.ENOSPC: "the disk is full; make room and start again, nothing recorded is lost",
        errno.EROFS: "the file system is read-only; set data_dir to a folder that can be written",
    }.get(error.errno or 0, "")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
