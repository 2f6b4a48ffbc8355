"""`label set|import|agreement|export`: labels in and out of the ledger as lines and files."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from checks.evaluate.agreement import agreement as agreement_of
from checks.types import FactLabel
from gateway.cli.ledger import with_store
from gateway.cli.output import FAILED, OK, USAGE, emit, fail, note
from gateway.errors import NotFoundError, RequestError
from gateway.ledger.labels import Label, Labels, Span
from gateway.ledger.store import PostgresStore

_STANCES = {
    FactLabel.TRUE: "supports",
    FactLabel.HALF_TRUE: "partial",
    FactLabel.FALSE: "refutes",
    FactLabel.ABSURD: "refutes",
    FactLabel.NOT_SUPPORTED: "irrelevant",
}
"""What a label says of the passage that its `source` names."""


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """A line of an import."""

    exchange: str
    label: str
    fact: int | None = None
    choice: int = 0
    check: int | None = None
    source: str = ""
    comment: str = ""
    labeller: str = ""
    id: str = ""


def set_label(config_path: Path, label: Label, *, as_json: bool) -> int:
    """Keep one label."""

    async def add(store: PostgresStore) -> dict[str, Any]:
        return await Labels(store).add(label)

    kept = with_store(config_path, add)
    what = "the answer" if kept["fact"] is None else f"fact {kept['fact']}"
    emit(kept, as_json=as_json, text=f"{kept['labeller']} labels {what} of {kept['exchange_id']}: {kept['label']}")
    return OK


def import_labels(config_path: Path, file: Path, *, by: str, as_json: bool) -> int:
    """Keep the labels of a file; lines that are refused are named, the others are kept."""
    lines = list(_lines(file))

    async def add(store: PostgresStore) -> tuple[int, list[str]]:
        labels, new, refused = Labels(store), 0, []
        for number, line in lines:
            try:
                new += (await labels.add(_label(line, by)))["new"]
            except (RequestError, NotFoundError, msgspec.MsgspecError) as error:
                refused.append(f"{file}:{number}: {error}")
        return new, refused

    new, refused = with_store(config_path, add)
    for reason in refused:
        note(reason)
    known = len(lines) - new - len(refused)
    result = {"new": new, "known": known, "refused": len(refused)}
    emit(result, as_json=as_json, text=f"{new} new, {known} were there, {len(refused)} refused")
    return FAILED if refused else OK


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            yield number, line


def _label(line: bytes, by: str) -> Label:
    """The label of a line. Without an id of its own its content is its id, so that a file can be imported again."""
    row = msgspec.json.decode(line, type=_Line)
    labeller = row.labeller or by
    content = json.dumps([msgspec.to_builtins(row), labeller], sort_keys=True)
    return Label(
        exchange_id=row.exchange,
        label=row.label,
        labeller=labeller,
        source=row.source,
        comment=row.comment,
        choice=row.choice,
        check=row.check,
        fact=row.fact,
        id=row.id or f"im_{sha256(content.encode()).hexdigest()[:32]}",
    )


# -- agreement ---------------------------------------------------------------------------------------------------------


def agreement(config_path: Path, span: Span, *, as_json: bool) -> int:
    """Alpha over facts, issues and answers apart, and what the verdicts said of the same."""

    async def read(store: PostgresStore) -> list[dict[str, Any]]:
        return await Labels(store).current(span)

    rows = with_store(config_path, read)
    if not rows:
        fail("there are no labels", "give some with `grounding-gateway label`, or widen --route, --since, --until")
    found = [_agreement(kind, own) for kind, own in _by_kind(rows).items()]
    columns = ("of", "labels", "labellers", "labelled", "by two or more", "agree", "alpha", "95%", "as the verdict")
    table = (columns, [_agreement_row(each) for each in found])
    confused = [f"{one} / {other}: {count}" for each in found for one, other, count in each["confused"][:5]]
    text = f"most often confused: {', '.join(confused)}" if confused else None
    emit(found, as_json=as_json, table=table, text=text)
    return OK


def _by_kind(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        issue = row["kind"] == "code_review"
        found["answers" if row["fact"] is None else "issues" if issue else "facts"].append(row)
    return dict(sorted(found.items()))


def _agreement(kind: str, rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    units: dict[tuple[Any, ...], dict[str, str]] = defaultdict(dict)
    for row in rows:
        units[_place(row)][row["labeller"]] = row["label"]
    figures = agreement_of(list(units.values()))
    named = [row for row in rows if row["verdict_label"] is not None]
    return {
        "of": kind,
        "labels": len(rows),
        "labellers": len({row["labeller"] for row in rows}),
        "labelled": len(units),
        "by_two_or_more": figures.units,
        "pairs": figures.pairs,
        "pairs_that_agree": figures.same,
        "alpha": figures.alpha,
        "low": figures.low,
        "high": figures.high,
        "confused": figures.confused,
        "verdict_compared": len(named),
        "verdict_same_label": sum(row["label"] == row["verdict_label"] for row in named),
    }


def _agreement_row(each: Mapping[str, Any]) -> tuple[object, ...]:
    pairs, compared = each["pairs"], each["verdict_compared"]
    return (
        each["of"],
        each["labels"],
        each["labellers"],
        each["labelled"],
        each["by_two_or_more"],
        f"{each['pairs_that_agree'] / pairs:.0%}" if pairs else "-",
        "-" if each["alpha"] is None else f"{each['alpha']:.3f}",
        "-" if each["low"] is None else f"{each['low']:.3f} to {each['high']:.3f}",
        f"{each['verdict_same_label'] / compared:.0%}" if compared else "-",
    )


# -- export ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Word:
    """What people say of a fact or an answer together; `sources` are what their labels rest on."""

    label: str
    sources: frozenset[str]


def export_labels(config_path: Path, span: Span, folder: Path, *, by: str | None) -> int:
    """Write facts.jsonl and answers.jsonl. What labellers are divided about is left out and counted."""
    files = (folder / "facts.jsonl", folder / "answers.jsonl")
    for file in files:
        if file.exists():
            fail(f"{file} exists", "remove it, or name another folder", USAGE)

    async def read(store: PostgresStore) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Counter[str]]:
        rows = [row for row in await Labels(store).current(span) if by is None or row["labeller"] == by]
        words, left_out = _words(rows)
        facts: list[dict[str, Any]] = []
        answers: list[dict[str, Any]] = []
        for exchange_id, own in words.items():
            exchange = await store.get_exchange(exchange_id)
            for (check, fact), word in own.items():
                row = _answer_row(exchange, check, word) if fact is None else _fact_row(exchange, check, fact, word)
                if row is None:
                    left_out["words erased, or no true-or-false label"] += 1
                else:
                    (answers if fact is None else facts).append(row)
        return facts, answers, left_out

    facts, answers, left_out = with_store(config_path, read)
    folder.mkdir(parents=True, exist_ok=True)
    for file, found in zip(files, (facts, answers), strict=True):
        file.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in found))
    note(f"{len(facts)} facts and {len(answers)} answers in {folder}")
    for reason, count in left_out.items():
        note(f"left out, {reason}: {count}")
    return OK


def _words(
    rows: Iterable[Mapping[str, Any]],
) -> tuple[dict[str, dict[tuple[int, int | None], _Word]], Counter[str]]:
    """The majority's label by exchange and place; issues of reviews and ties are left out."""
    places: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    left_out: Counter[str] = Counter()
    for row in rows:
        if row["kind"] == "code_review":
            left_out["labels on issues of reviews"] += 1
        else:
            places[_place(row)].append(row)
    found: dict[str, dict[tuple[int, int | None], _Word]] = defaultdict(dict)
    for (exchange_id, check, fact), own in places.items():
        first, *others = Counter(row["label"] for row in own).most_common(2)
        if others and others[0][1] == first[1]:
            left_out["labellers are divided"] += 1
            continue
        sources = frozenset(row["source"] for row in own if row["label"] == first[0] and row["source"])
        found[exchange_id][check, fact] = _Word(first[0], sources)
    return found, left_out


def _place(row: Mapping[str, Any]) -> tuple[str, int, int | None]:
    return row["exchange_id"], row["check"] or 0, row["fact"]


def _fact_row(exchange: Mapping[str, Any], check: int, position: int, word: _Word) -> dict[str, Any] | None:
    own = exchange["checks"][check]
    fact = next(each for each in own["facts"] if each["position"] == position)
    if not fact["text"]:
        return None
    seen = {evidence["source"] for evidence in fact["evidence"]}
    texts = [_text(source, word) for source in exchange["sources"] if source["number"] in seen and source["text"]]
    return {
        "id": f"{exchange['id']}/{check}/{position}",
        "claim": fact["text"],
        "label": word.label,
        "evidence": texts,
        "query": (exchange["body"] or {}).get("query", ""),
        "answer": _answer(exchange, own),
        "answer_id": f"{exchange['id']}/{check}",
        "group": exchange["id"],
    }


def _text(source: Mapping[str, Any], word: _Word) -> dict[str, Any]:
    """A passage with its stance, where a label rests on it by number, passage's id or address."""
    names = {str(source["number"]), f"[{source['number']}]", source["passage_id"], source["url"]} - {""}
    stance = _STANCES.get(FactLabel(word.label)) if names & word.sources else None
    return {"doc_id": source["passage_id"], "title": source["title"], "text": source["text"], "stance": stance}


def _answer_row(exchange: Mapping[str, Any], check: int, word: _Word) -> dict[str, Any] | None:
    right = {FactLabel.TRUE: True, FactLabel.FALSE: False, FactLabel.ABSURD: False}.get(FactLabel(word.label))
    if right is None or not exchange["checks"]:
        return None
    answer = _answer(exchange, exchange["checks"][check])
    query = (exchange["body"] or {}).get("query", "")
    return {"answer_id": f"{exchange['id']}/{check}", "label": right, "query": query, "answer": answer}


def _answer(exchange: Mapping[str, Any], check: Mapping[str, Any]) -> str:
    return str(((exchange["body"] or {}).get("answers") or {}).get(str(check["choice"]), ""))
