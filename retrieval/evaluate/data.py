"""Labelled sets in BEIR's layout: `corpus.jsonl`, `queries.jsonl`, `qrels.tsv` (Thakur et al., 2021).

Knows nothing of indexes or measures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrieval.errors import LoadError
from retrieval.types import Document

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels.tsv"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSet:
    """Questions with the documents that answer them: `relevant[query id][document id]` is a grade above 0.

    `corpus` is `None` where the documents lie in a collection. Questions without a relevant document are left out of
    `queries` and counted in `unanswerable`.
    """

    name: str
    corpus: Path | None
    queries: Mapping[str, str]
    relevant: Mapping[str, Mapping[str, int]]
    unanswerable: int


def find_sets(directory: Path, *, corpus: bool = True) -> list[LabelledSet]:
    """The set in `directory`, or those in its folders, by name. Raises `LoadError` when there is none."""
    folders = [directory] if (directory / QUERIES).is_file() else sorted(directory.glob(f"*/{QUERIES}"))
    found = [read_set(each if each.is_dir() else each.parent, corpus=corpus) for each in folders]
    if not found:
        raise LoadError(
            f"{directory} holds no labelled set", hint=f"a set is a folder with {QUERIES}, {QRELS} and {CORPUS}"
        )
    return found


def read_set(directory: Path, *, corpus: bool = True) -> LabelledSet:
    """One set. Raises `LoadError` naming the file and line that cannot be read."""
    relevant: dict[str, dict[str, int]] = {}
    for number, line in enumerate(_lines(directory / QRELS), start=1):
        parts = line.split("\t")
        if number == 1 and len(parts) >= 3 and not parts[2].strip().lstrip("-").isdigit():
            continue
        try:
            query, document, grade = parts[0], parts[1], int(parts[2])
        except (IndexError, ValueError) as error:
            raise LoadError(
                f"{directory / QRELS} line {number} is not: query id, tab, document id, tab, grade"
            ) from error
        if grade > 0:
            relevant.setdefault(query, {})[document] = grade
    queries = {str(record["_id"]): str(record["text"]) for record in records(directory / QUERIES)}
    if lost := relevant.keys() - queries.keys():
        raise LoadError(f"{directory / QRELS} names queries that {QUERIES} has not, e.g. {min(lost)!r}")
    if not relevant:
        raise LoadError(f"{directory / QRELS} holds no relevant document")
    path = directory / CORPUS
    if corpus and not path.is_file():
        raise LoadError(
            f"{path} does not exist", hint="give the documents, or name the collection that has them with --fit"
        )
    return LabelledSet(
        name=directory.resolve().name,
        corpus=path if corpus else None,
        queries={key: text for key, text in queries.items() if key in relevant},
        relevant=relevant,
        unanswerable=len(queries) - len(relevant),
    )


class CorpusLoader:
    """`corpus.jsonl` as documents under the ids that the qrels name; texts stay as they are."""

    suffixes: tuple[str, ...] = (".jsonl",)

    def load(self, path: Path, *, root: Path) -> Iterable[Document]:
        for record in records(path):
            text = str(record["text"])
            if text.strip():
                yield Document(
                    id=str(record["_id"]),
                    source=str(record["_id"]),
                    title=str(record.get("title") or ""),
                    text=text,
                    sha256=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
                )


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file, each with `_id` and `text`. Raises `LoadError`."""
    for number, line in enumerate(_lines(path), start=1):
        try:
            record = json.loads(line)
            record["_id"], record["text"]
        except (ValueError, KeyError, TypeError) as error:
            raise LoadError(f'{path} line {number} is not an object with "_id" and "text"') from error
        yield record


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for line in file:
                if line.strip():
                    yield line.rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"{path} cannot be read: {error}", hint="check the path and that it is UTF-8") from error
