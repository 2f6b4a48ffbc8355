"""Synthetic documents, made once and kept, and requests about them."""

from __future__ import annotations

import json
from pathlib import Path

from bench.retrieval import question, sentence

QUESTIONS = 256


def write_documents(path: Path, count: int) -> None:
    """A dump of `count` documents of one passage each; written again only when its size is another."""
    if path.is_file() and sum(1 for _ in path.open("rb")) == count:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for number in range(count):
            text = f"{sentence(2 * number)} {sentence(2 * number + 1)}"
            file.write(json.dumps({"id": str(number), "title": f"Record {number}", "text": text}) + "\n")


def bodies(*, stream: bool = False) -> tuple[bytes, ...]:
    """Chat requests of about 400 bytes, each with another question."""
    system = "You answer questions about a plant's records. Say so when the records do not hold the answer. " * 2
    return tuple(
        json.dumps(
            {
                "model": "bench",
                "messages": [
                    {"role": "system", "content": system},
                    {"role": "user", "content": question(number)},
                ],
                "temperature": 0.2,
                "stream": stream,
            },
            separators=(",", ":"),  # as the SDKs write it
        ).encode()
        for number in range(QUESTIONS)
    )
