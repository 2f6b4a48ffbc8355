"""Small deterministic vector sets and index makers for the index tests."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from retrieval.index.base import IndexSettings
from retrieval.index.brute import BruteForceIndex
from retrieval.index.faiss import FaissIndex
from retrieval.types import Signature

DIMENSION = 16
SIGNATURE = Signature(model="tiny", revision="1", dimension=DIMENSION, max_tokens=64, splitter="tokens=20")
# A graph from 50 vectors on, no exact search of small selections, so that small tests walk it.
GRAPH = IndexSettings(flat_until=50, exact_until=0, tail_until=20, dead_share=0.9)


def clustered(count: int, *, seed: int, dimension: int = DIMENSION, clusters: int = 20) -> npt.NDArray[np.float32]:
    """Unit vectors around random centres, as embeddings of related texts lie."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((clusters, dimension))
    rows = centres[random.integers(clusters, size=count)] + 0.6 * random.standard_normal((count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


MAKERS: dict[str, Callable[[Signature], BruteForceIndex | FaissIndex]] = {
    "brute": BruteForceIndex,
    "flat": lambda signature: FaissIndex(signature, IndexSettings(dead_share=0.9)),
    "hnsw": lambda signature: FaissIndex(signature, GRAPH),
}


def recall(found: list[list[tuple[int, float]]], expected: list[list[tuple[int, float]]]) -> float:
    """The share of the expected ids that were found."""
    wanted = sum(len(line) for line in expected)
    hit = sum(len({id_ for id_, _ in a} & {id_ for id_, _ in b}) for a, b in zip(found, expected, strict=True))
    return hit / wanted


def other_signature() -> Signature:
    return replace(SIGNATURE, model="another", max_tokens=512)
