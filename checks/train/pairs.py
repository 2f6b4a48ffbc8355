"""Training pairs from the facts data: which rows, how many, and how much each weighs.

Sources differ in how their labels were made and in what they give away by overlap alone, hence caps and weights.
Groups (paragraph, page, premise) stay on one side of any split.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from checks.facts.lexicon import Lexicon
from checks.train.edits import IRRELEVANT, PARTIAL, REFUTES, SUPPORTS, Editor

STANCES = (SUPPORTS, PARTIAL, REFUTES, IRRELEVANT)
# file -> (most pairs taken, weight of a pair)
SOURCES: dict[str, tuple[int, float]] = {
    "synthetic_en": (900, 1.0), "synthetic_ru": (500, 1.0), "synthetic_pubmed": (750, 0.7), "xquad_en": (900, 1.0),
    "xquad_ru": (900, 1.0), "wice_partial": (380, 0.3), "fool_me_twice": (900, 0.5), "expertqa": (500, 0.8),
    "begin_wow": (270, 0.3), "pubmedqa": (600, 0.3), "nli_boolq": (800, 0.3), "nli_breaking": (500, 0.3),
    "nli_cad": (1000, 0.4), "nli_condaqa": (600, 0.3), "nli_conj": (400, 0.2), "nli_evinf": (500, 0.3),
    "nli_fever": (2000, 0.7), "nli_feverous": (400, 0.2), "nli_feversym": (1000, 0.5), "nli_help": (200, 0.2),
    "nli_infotabs": (1500, 0.4), "nli_koziev": (300, 0.2), "nli_med": (500, 0.3), "nli_mnli": (2000, 0.5),
    "nli_negation": (800, 0.4), "nli_nq": (1500, 0.6), "nli_rsg_votes": (400, 0.3), "nli_ru_para": (1500, 0.5),
    "nli_snli": (800, 0.3), "nli_squadshifts": (2000, 0.8), "nli_summedits": (400, 0.3), "nli_tabfact": (300, 0.2),
    "nli_terra": (1200, 0.4), "nli_terra_edits": (2600, 1.0),
}  # fmt: skip
# Paragraphs that edits are made from: file -> (paragraphs, makings of each).
PARAGRAPHS: dict[str, tuple[int, int]] = {
    "xquad_en": (120, 4), "xquad_ru": (120, 6), "nli_squadshifts": (700, 1), "nli_nq": (600, 1), "nli_boolq": (700, 1),
    "pubmedqa": (150, 1), "nli_condaqa": (200, 1),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled pair; `coarse` pairs say only whether the passage supports."""

    query: str
    fact: str
    passage: str
    title: str
    stance: str
    weight: float
    group: str
    source: str
    coarse: bool = False


def rows(path: Path) -> Iterator[dict[str, object]]:
    """Rows of a JSON Lines file."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def examples(path: Path, source: str, weight: float) -> list[Example]:
    """Every evidence text of a file that has a stance, as a pair."""
    found = []
    for row in rows(path):
        evidence = row["evidence"]
        assert isinstance(evidence, list)
        for text in evidence:
            if text["stance"] not in STANCES:
                continue
            found.append(
                Example(
                    query=str(row["query"] or ""),
                    fact=str(row["claim"]),
                    passage=text["text"],
                    title=text["title"] or "",
                    stance=text["stance"],
                    weight=weight,
                    group=str(row.get("group") or text["doc_id"]),
                    source=source,
                    coarse=bool(row.get("coarse")),
                )
            )
    return found


def read(data: Path, lexicon: Lexicon, seed: int) -> list[Example]:
    """All training pairs: the sources as capped, then made edits."""
    rng = random.Random(seed)  # noqa: S311 (sampling, not secrets)
    found: list[Example] = []
    for source, (most, weight) in SOURCES.items():
        taken = examples(data / "facts" / "train" / f"{source}.jsonl", source, weight)
        rng.shuffle(taken)
        found.extend(taken[:most])
    return found + made(data, lexicon, rng)


def made(data: Path, lexicon: Lexicon, rng: random.Random) -> list[Example]:
    """Edits of paragraphs (`checks.train.edits`)."""
    editor = Editor(lexicon, rng)
    found: list[Example] = []
    for source, (most, times) in PARAGRAPHS.items():
        texts = {}
        for row in rows(data / "facts" / "train" / f"{source}.jsonl"):
            evidence = row["evidence"]
            assert isinstance(evidence, list)
            for text in evidence:
                texts[text["text"]] = (str(row.get("group") or text["doc_id"]), text["title"] or "")
        paragraphs = sorted(texts)
        rng.shuffle(paragraphs)
        paragraphs = paragraphs[:most]
        for paragraph in paragraphs:
            group, title = texts[paragraph]
            for _ in range(times):
                found.extend(
                    Example("", pair.fact, pair.passage, title, pair.stance, 1.0, group, f"made_{pair.kind}")
                    for pair in editor.make(paragraph, paragraphs)
                )
    return found
