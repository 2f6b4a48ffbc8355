"""Passages for tests."""

from __future__ import annotations

import hashlib

from retrieval.types import Hit, Passage


def hit(text: str, *, title: str = "", heading: tuple[str, ...] = (), score: float = 0.5) -> Hit:
    digest = hashlib.sha256(text.encode()).hexdigest()
    passage = Passage(
        id=digest[:12],
        document_id="d",
        title=title,
        text=text,
        start=0,
        end=len(text),
        sha256=digest,
        heading=heading,
    )
    return Hit(passage=passage, score=score)
