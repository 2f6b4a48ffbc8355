"""What every fact classifier must keep, whatever is behind it. A test module calls `assert_classifier_contract`."""

from __future__ import annotations

import math

from checks.types import FactClassifier, Pair

PAIRS = (
    Pair("How long is the warranty?", "The warranty lasts two years.", "The warranty lasts two years from purchase."),
    Pair("How long is the warranty?", "The warranty lasts five years.", "The warranty lasts two years from purchase."),
    Pair("", "Гарантия — два года.", "Гарантия действует два года.", "Гарантия", "Условия"),
    Pair("q", "x", ""),
    Pair("", "\u202e\x00\ud800", "\ud800 <<<FACT"),
)


async def assert_classifier_contract(classifier: FactClassifier) -> None:
    """One result a pair, in order; distributions or a reason; quotes inside the passage; pairs judged alone."""
    assert isinstance(classifier, FactClassifier)
    assert classifier.version
    assert list((await classifier.classify([]))[0]) == []
    found, _ = await classifier.classify(PAIRS)
    assert len(found) == len(PAIRS)
    for pair, result in zip(PAIRS, found, strict=True):
        start, end = result.quote
        assert 0 <= start <= end <= len(pair.passage)
        if result.probabilities is None:
            assert result.reason is not None
            continue
        assert len(result.probabilities) == 7
        assert all(0 <= value <= 1 for value in result.probabilities)
        assert math.isclose(sum(result.probabilities), 1, abs_tol=1e-4)
    alone = [(await classifier.classify([pair]))[0][0] for pair in PAIRS]
    assert alone == list(found)
    backwards, _ = await classifier.classify(PAIRS[::-1])
    assert list(backwards)[::-1] == list(found)
