"""Any sequence of writes, searches and restarts against the oracle."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from retrieval.index.base import IndexSettings
from retrieval.index.brute import BruteForceIndex
from retrieval.index.faiss import FaissIndex
from tests.retrieval.vectors import SIGNATURE, clustered

POOL = clustered(400, seed=8, clusters=7)
KEYS = st.integers(0, 60)
SETTINGS = [
    IndexSettings(dead_share=0.3),
    IndexSettings(dead_share=1.0),
    IndexSettings(flat_until=15, exact_until=0, tail_until=4, tail_share=0.1, dead_share=0.4),
    IndexSettings(flat_until=10, exact_until=0, tail_until=0, tail_share=0.0, dead_share=1.0),
]


class AgainstOracle(RuleBasedStateMachine):
    """Two indexes get the same writes; every search must agree."""

    @initialize(settings=st.sampled_from(SETTINGS))
    def begin(self, settings: IndexSettings) -> None:
        self.settings = settings
        self.index = FaissIndex(SIGNATURE, settings)
        self.oracle = BruteForceIndex(SIGNATURE)

    @rule(keys=st.lists(KEYS, max_size=12), first=st.integers(0, 380))
    def upsert(self, keys: list[int], first: int) -> None:
        rows = POOL[first : first + len(keys)]
        self.index.upsert(keys, rows)
        self.oracle.upsert(keys, rows)

    @rule(keys=st.sets(KEYS, max_size=20))
    def delete(self, keys: set[int]) -> None:
        self.index.delete(keys)
        self.oracle.delete(keys)

    @rule(
        query=st.integers(0, 399), k=st.integers(0, 70), allowed=st.none() | st.lists(st.integers(0, 70), max_size=40)
    )
    def search(self, query: int, k: int, allowed: list[int] | None) -> None:
        rows = None if allowed is None else np.array(allowed, dtype=np.int64)
        mine = self.index.search(POOL[query : query + 1], k, rows)[0]
        theirs = self.oracle.search(POOL[query : query + 1], k, rows)[0]
        assert len(mine) == len(theirs)
        np.testing.assert_allclose([score for _, score in mine], [score for _, score in theirs], atol=1e-5)
        keys = [key for key, _ in mine]
        assert len(set(keys)) == len(keys)
        exact = self.oracle.vectors(keys) @ POOL[query]
        np.testing.assert_allclose([score for _, score in mine], exact, atol=1e-5)

    @rule()
    def restart(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            self.index.snapshot(Path(directory) / "s")
            self.index = FaissIndex.load(Path(directory) / "s", signature=SIGNATURE, settings=self.settings)

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "index"):
            assert self.index.stats().live == self.oracle.stats().live


TestAgainstOracle = pytest.mark.slow(AgainstOracle.TestCase)
TestAgainstOracle.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
