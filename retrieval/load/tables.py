"""CSV, TSV and XLSX tables. Each row is one line that carries its headers: `header: value; header: value`.

So a passage can be read, found and cited without the top of the table. Knows nothing of other formats.
"""

from __future__ import annotations

import csv
import datetime
import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from retrieval.errors import LoadError
from retrieval.load.base import MAX_BYTES, Content, Reading, build_document, read_bytes
from retrieval.load.clean import clean_line
from retrieval.load.outline import table_row
from retrieval.load.text import read_text
from retrieval.types import Document, Section

DELIMITERS = ",;\t|"
SNIFFED_ROWS = 50
SNIFFED_CHARACTERS = 64 * 1024
MAX_CELL = 8000
MAX_UNPACKED = 1024 * 1024 * 1024
MAX_PROBLEMS = 20

_NUMBER = re.compile(r"[-+]?[\d\s.,]*\d[%\u20ac$\u00a3]?")


class CsvLoader:
    """CSV and TSV files; delimiter and encoding are found out. One document a file."""

    suffixes: tuple[str, ...] = (".csv", ".tsv", ".tab")

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes

    def load(self, path: Path, *, root: Path) -> Iterable[Document]:
        """The table as one document; raises `LoadError`. Rows that cannot be read are named in the problems."""
        return Reading(lambda problems: self._documents(path, root, problems))

    def _documents(self, path: Path, root: Path, problems: list[LoadError]) -> Iterator[Document]:
        text = read_text(path, self._max_bytes)
        delimiter = sniff_delimiter(text, default="," if path.suffix.lower() == ".csv" else "\t")
        table = _Table(path, "", problems)
        for row in _csv_rows(text, delimiter, path, problems):
            table.add(row)
        yield build_document(path, root, Content(text="\n".join(table.lines()), format="table"))


class XlsxLoader:
    """Excel workbooks; each visible sheet is a section, values are those last computed. One document a file."""

    suffixes: tuple[str, ...] = (".xlsx", ".xlsm")

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes

    def load(self, path: Path, *, root: Path) -> Iterable[Document]:
        """The workbook as one document; raises `LoadError` when it is broken, encrypted or too large unpacked."""
        return Reading(lambda problems: self._documents(path, root, problems))

    def _documents(self, path: Path, root: Path, problems: list[LoadError]) -> Iterator[Document]:
        data = read_bytes(path, self._max_bytes)
        parts: list[str] = []
        sections: list[Section] = []
        size = 0
        try:
            _check_unpacked_size(path, data)
            for name, rows in _sheets(data):
                table = _Table(path, f" sheet {name!r}", problems)
                for row in rows:
                    table.add(row)
                lines = table.lines()
                if not lines:
                    continue
                sections.append(Section(offset=size, heading=(name,)))
                parts.append("\n".join(lines) + "\n\n")
                size += len(parts[-1])
        except LoadError:
            raise
        except Exception as error:  # broken workbooks raise whatever the parser was doing
            raise LoadError(
                f"{path} is not a readable workbook: {type(error).__name__}: {error}"[:300],
                hint="remove its password if it has one, and save it anew as .xlsx or .csv",
            ) from error
        content = Content(text="".join(parts).rstrip("\n"), format="table", sections=tuple(sections))
        yield build_document(path, root, content)


class _Table:
    """Rows as they come, lines with headers as they leave. The header is the first row unless that looks like data."""

    def __init__(self, path: Path, where: str, problems: list[LoadError]) -> None:
        self._path = path
        self._where = where
        self._problems = problems
        self._header: list[str] | None = None
        self._first: list[str] = []
        self._lines: list[str] = []
        self._row = 0

    def add(self, cells: Sequence[str]) -> None:
        self._row += 1
        row = [self._bounded(clean_line(cell)) for cell in cells]
        while row and not row[-1]:
            row.pop()
        if not row:
            return
        if self._header is None:
            self._header = _header(row)
            if any(self._header):
                self._first = row
                return
        if line := table_row(self._header, row):
            self._lines.append(line)

    def lines(self) -> list[str]:
        """One line a row; a table of nothing but a header gives the header."""
        return self._lines or ([table_row((), self._first)] if self._first else [])

    def _bounded(self, cell: str) -> str:
        if len(cell) <= MAX_CELL:
            return cell
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(
                LoadError(
                    f"{self._path}{self._where} row {self._row}: a cell of {len(cell)} characters is cut to {MAX_CELL}",
                    hint="put long texts into documents of their own",
                )
            )
        return cell[:MAX_CELL]


def _header(row: Sequence[str]) -> list[str]:
    """The names of the columns, or none where the first row is data already: it holds a number or repeats itself."""
    names = [name for name in row if name]
    if any(_NUMBER.fullmatch(name) for name in names) or len(set(names)) < len(names):
        return []
    return [name or f"column {position}" for position, name in enumerate(row, 1)]


def sniff_delimiter(text: str, default: str) -> str:
    """The delimiter that cuts the first rows into the same number of cells most often, and into more than one.

    The standard library's sniffer is not used: it takes letters for delimiters and is slow on long cells.
    """
    sample = text[:SNIFFED_CHARACTERS]
    best, best_score = default, 0.0
    for delimiter in DELIMITERS:
        widths: Counter[int] = Counter()
        try:
            for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter):
                if row:
                    widths[len(row)] += 1
                if widths.total() >= SNIFFED_ROWS:
                    break
        except csv.Error:
            continue
        if not widths:
            continue
        width, count = widths.most_common(1)[0]
        score = count / widths.total() + width / 1000 if width > 1 else 0.0
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _csv_rows(text: str, delimiter: str, path: Path, problems: list[LoadError]) -> Iterator[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if len(problems) < MAX_PROBLEMS:
                problems.append(
                    LoadError(f"{path} line {reader.line_num}: {error}", hint="is a quotation mark not closed there?")
                )


def _check_unpacked_size(path: Path, data: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > MAX_UNPACKED:
        raise LoadError(f"{path} unpacks to {size // (1024 * 1024)} MB", hint="split the workbook, or export it as CSV")


def _sheets(data: bytes) -> Iterator[tuple[str, Iterator[list[str]]]]:
    from openpyxl import load_workbook  # a gateway without workbooks does not wait for it

    book = load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    try:
        for sheet in book.worksheets:
            if sheet.sheet_state == "visible":
                yield (
                    clean_line(sheet.title),
                    ([_value(cell) for cell in row] for row in sheet.iter_rows(values_only=True)),
                )
    finally:
        book.close()


def _value(cell: Any) -> str:
    """A cell as a person reads it: no `.0` on whole numbers, no midnight on dates."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return f"{cell:.15g}"
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return cell.date().isoformat()
    if isinstance(cell, (datetime.datetime, datetime.date, datetime.time)):
        return cell.isoformat()
    return str(cell)
