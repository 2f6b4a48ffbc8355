"""Builds `lexicon.json.gz` from the WordNet 3.1 database files: related, opposite and sibling words by stem.

It reads the plain `index.sense` and `data.*` files (format: wndb(5WN), senseidx(5WN)) and keeps single words of the
first senses only, because rare senses relate words that no reader would exchange.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import Stemmer

_POS_FILES = {"1": "noun", "2": "verb", "3": "adj", "4": "adv", "5": "adj"}
_POS_OF_LETTER = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}
_MAX_SENSE = 2
_RELATED_POINTERS = {"+", "&", "\\", "<", "="}
_PARENT_POINTERS = {"@"}
_OPPOSITE_POINTER = "!"


@dataclass(frozen=True, slots=True)
class _Synset:
    lemmas: tuple[str, ...]
    # (symbol, target part of speech, target offset, source word number, target word number)
    pointers: tuple[tuple[str, str, int, int, int], ...]


def _read_synsets(path: Path) -> Iterator[tuple[int, _Synset]]:
    for line in path.read_text(encoding="latin-1").splitlines():
        if line.startswith("  "):
            continue
        fields = line.split(" | ")[0].split()
        count = int(fields[3], 16)
        lemmas = tuple(fields[4 + 2 * i].split("(")[0].lower() for i in range(count))
        at = 4 + 2 * count
        pointers = []
        for number in range(int(fields[at])):
            symbol, offset, letter, words = fields[at + 1 + 4 * number : at + 5 + 4 * number]
            pointers.append((symbol, _POS_OF_LETTER[letter], int(offset), int(words[:2], 16), int(words[2:], 16)))
        yield int(fields[0]), _Synset(lemmas, tuple(pointers))


def _first_senses(path: Path) -> dict[tuple[str, str, int], int]:
    """(lemma, part of speech, synset offset) to sense number, first senses only."""
    senses = {}
    for line in path.read_text(encoding="latin-1").splitlines():
        key, offset, number, _count = line.rsplit(" ", 3)
        lemma, rest = key.split("%", 1)
        if int(number) <= _MAX_SENSE:
            senses[lemma, _POS_FILES[rest[0]], int(offset)] = int(number)
    return senses


def build(wordnet: Path) -> dict[str, dict[str, list[str]]]:
    """Three maps from a stem: `related` stems, `opposite` stems, `parents` (identifiers of broader meanings)."""
    stem = Stemmer.Stemmer("english").stemWord
    senses = _first_senses(wordnet / "index.sense")
    synsets = {
        (pos, offset): synset
        for pos in ("noun", "verb", "adj", "adv")
        for offset, synset in _read_synsets(wordnet / f"data.{pos}")
    }
    maps: dict[str, dict[str, set[str]]] = {name: defaultdict(set) for name in ("related", "opposite", "parents")}

    def usable(lemma: str, pos: str, offset: int) -> bool:
        return lemma.isalpha() and len(lemma) > 2 and (lemma, pos, offset) in senses

    for (pos, offset), synset in synsets.items():
        words = [lemma for lemma in synset.lemmas if usable(lemma, pos, offset)]
        for word in words:
            maps["related"][stem(word)].update(stem(other) for other in words)
        for symbol, to_pos, to_offset, source, target in synset.pointers:
            other = synsets[to_pos, to_offset]
            from_words = [synset.lemmas[source - 1]] if source else list(synset.lemmas)
            to_words = [other.lemmas[target - 1]] if target else list(other.lemmas)
            from_words = [word for word in from_words if usable(word, pos, offset)]
            to_words = [word for word in to_words if usable(word, to_pos, to_offset)]
            if symbol in _RELATED_POINTERS:
                for word in from_words:
                    maps["related"][stem(word)].update(map(stem, to_words))
            elif symbol == _OPPOSITE_POINTER:
                for word in from_words:
                    maps["opposite"][stem(word)].update(map(stem, to_words))
            elif symbol in _PARENT_POINTERS and pos in ("noun", "verb"):
                for word in from_words:
                    if senses[word, pos, offset] <= 2:
                        maps["parents"][stem(word)].add(f"{to_pos[0]}{to_offset}")
    return {
        name: {key: sorted(values - {key}) for key, values in sorted(entries.items()) if values - {key}}
        for name, entries in maps.items()
    }


def write(lexicon: dict[str, dict[str, list[str]]], path: Path) -> None:
    """Write reproducibly: equal input gives equal bytes. Parents are numbered to stay small."""
    numbers: dict[str, int] = {}
    parents = {
        key: [numbers.setdefault(value, len(numbers)) for value in values] for key, values in lexicon["parents"].items()
    }
    value = {
        "related": {key: " ".join(values) for key, values in lexicon["related"].items()},
        "opposite": {key: " ".join(values) for key, values in lexicon["opposite"].items()},
        "parents": parents,
    }
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
    path.write_bytes(gzip.compress(data, compresslevel=9, mtime=0))
