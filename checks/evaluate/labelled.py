"""Labelled facts from JSON Lines files, as `evaluate facts` reads them. Knows files, no classifier.

A row: `claim` (text), `label` (one of the seven), `evidence` (list of `text`, and optionally `doc_id`, `title`,
`stance`), and optionally `id`, `query`, `context`, `answer`, `answer_id`, `group`. `stance` is supports, partial,
refutes, irrelevant, or null for a text that was not judged. A file `answers.jsonl` beside them has rows with
`answer_id`, `label` (true, false, or null to leave it out), `query`, `answer`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.errors import LabelledDataError
from checks.types import FACT_LABELS, FactLabel

STANCES = ("supports", "partial", "refutes", "irrelevant")
ANSWERS = "answers"


@dataclass(frozen=True, slots=True)
class Text:
    """One text of evidence; `stance` is None when nobody judged it."""

    id: str
    title: str
    text: str
    stance: str | None


@dataclass(frozen=True, slots=True)
class LabelledFact:
    """One claim with its label and the texts it was labelled against."""

    id: str
    query: str
    fact: str
    context: str
    label: FactLabel
    evidence: tuple[Text, ...]
    answer_id: str
    answer: str
    group: str


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """One answer; `right` is the person's word on the whole of it."""

    id: str
    query: str
    answer: str
    right: bool


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """One file of facts, and the labelled answers whose facts it holds."""

    name: str
    facts: tuple[LabelledFact, ...]
    answers: tuple[LabelledAnswer, ...]


def read_sets(
    data: Path, *, part: str = "dev", names: tuple[str, ...] = (), limit: int | None = None
) -> list[LabelledSet]:
    """The sets under `data/facts/<part>`, or in `data` itself; all, or those named. `limit`: at most so many facts of
    each, whole groups, chosen by a hash of the group. Raises `LabelledDataError`.
    """
    folder = data / "facts" / part
    folder = folder if folder.is_dir() else data
    files = {path.stem: path for path in sorted(folder.glob("*.jsonl")) if path.stem != ANSWERS}
    if not files:
        raise LabelledDataError(
            f"no *.jsonl with labelled facts in {folder}", hint="give --data a folder that has some"
        )
    for name in names:
        if name not in files:
            raise LabelledDataError(f"no set '{name}' in {folder}", hint=f"there are: {', '.join(files)}")
    answers = _answers(folder / f"{ANSWERS}.jsonl")
    found = []
    for name, path in files.items():
        if not names or name in names:
            facts = _limited(tuple(_fact(row, f"{path}:{line}") for line, row in _rows(path)), limit)
            ids = dict.fromkeys(fact.answer_id for fact in facts)
            found.append(LabelledSet(name, facts, tuple(answers[key] for key in ids if key in answers)))
    return found


def _limited(facts: tuple[LabelledFact, ...], limit: int | None) -> tuple[LabelledFact, ...]:
    if limit is None or len(facts) <= limit:
        return facts
    kept: list[LabelledFact] = []
    groups: dict[str, list[LabelledFact]] = {}
    for fact in facts:
        groups.setdefault(fact.group, []).append(fact)
    for group in sorted(groups, key=lambda name: hashlib.sha256(name.encode()).digest()):
        if kept and len(kept) + len(groups[group]) > limit:
            break
        kept.extend(groups[group])
    return tuple(kept)


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    row = json.loads(line)
                    if not isinstance(row, dict):
                        raise LabelledDataError(f"{path}:{number}: not a JSON object", hint="one object a line")
                    yield number, row
    except json.JSONDecodeError as error:
        raise LabelledDataError(f"{path}: {error}", hint="one JSON object a line, UTF-8") from error
    except (OSError, UnicodeDecodeError) as error:
        raise LabelledDataError(
            f"cannot read {path}: {error}", hint="UTF-8 JSON Lines that this user may read"
        ) from error


def _text(row: Mapping[str, Any], key: str, where: str, *, needed: bool = False) -> str:
    value = row.get(key)
    if value is None and not needed:
        return ""
    if not isinstance(value, str) or (needed and not value.strip()):
        raise LabelledDataError(f"{where}: '{key}' is {type(value).__name__}, not text", hint=f"give every row '{key}'")
    return value


def _fact(row: Mapping[str, Any], where: str) -> LabelledFact:
    label = row.get("label")
    if label not in {known.value for known in FACT_LABELS}:
        known = ", ".join(name.value for name in FACT_LABELS)
        raise LabelledDataError(f"{where}: label {label!r} is none of the seven", hint=f"use one of {known}")
    given = row.get("evidence")
    if not isinstance(given, list):
        raise LabelledDataError(f"{where}: 'evidence' is no list", hint="give [] for a fact without evidence")
    evidence = tuple(_evidence(text, f"{where}: evidence {number}") for number, text in enumerate(given, 1))
    name = _text(row, "id", where) or where
    answer_id = _text(row, "answer_id", where) or name
    return LabelledFact(
        id=name,
        query=_text(row, "query", where),
        fact=_text(row, "claim", where, needed=True),
        context=_text(row, "context", where),
        label=FactLabel(label),
        evidence=evidence,
        answer_id=answer_id,
        answer=_text(row, "answer", where),
        group=_text(row, "group", where) or answer_id,
    )


def _evidence(text: Any, where: str) -> Text:
    if not isinstance(text, dict):
        raise LabelledDataError(f"{where} is no object", hint="an object with 'text', 'title', 'stance'")
    stance = text.get("stance")
    if stance is not None and stance not in STANCES:
        raise LabelledDataError(
            f"{where}: stance {stance!r} is unknown", hint=f"use one of {', '.join(STANCES)}, or null"
        )
    body = _text(text, "text", where, needed=True)
    name = _text(text, "doc_id", where) or hashlib.sha256(body.encode()).hexdigest()[:16]
    return Text(name, _text(text, "title", where), body, stance)


def _answers(path: Path) -> dict[str, LabelledAnswer]:
    if not path.exists():
        return {}
    found = {}
    for line, row in _rows(path):
        where = f"{path}:{line}"
        name, right = _text(row, "answer_id", where, needed=True), row.get("label")
        if right is None:
            continue
        if not isinstance(right, bool):
            raise LabelledDataError(f"{where}: label {right!r} of an answer", hint="use true, false, or null")
        found[name] = LabelledAnswer(name, _text(row, "query", where), _text(row, "answer", where), right)
    return found
