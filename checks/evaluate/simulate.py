"""How the variants behave as judges' hit rates and their correlation change: drawn votes through the real tables.

Two judges look at each issue through one pair of correlated normal draws (a Gaussian copula): a judge says
Hallucination below its rate, Undetermined in a band above it, else Valid Issue. After a file was found both look again,
with the rates of `informed`. Nothing here is a model of code: it shows what the tables do with votes of a given
quality. Published figures for reference (Korbit, part III): one judge 45% recall, `or` 56% at 25% of valid issues
flagged, `and` 25%, `multi_hop` near 80%; `or` + `and` of these give the second judge 36%, and phi 0.37.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from checks.evaluate.measures import Measures, phi
from checks.evaluate.review import Agreement, Report, Result
from checks.review.decide import Outcome, Variant, decide
from checks.review.votes import Vote

NAMES = ("one", "two")
_VOTES = (Vote.HALLUCINATION, Vote.UNDETERMINED, Vote.VALID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """How often each of the two judges says Hallucination: of hallucinations (`hits`), of valid issues (`alarms`);
    and Undetermined, of either (`unsure`)."""

    hits: tuple[float, float] = (0.45, 0.36)
    alarms: tuple[float, float] = (0.15, 0.13)
    unsure: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A simulation. `correlation` is that of the normal draws behind the votes; `found` the share of requests that
    lead to a file; `informed` the judges' quality once they see it."""

    quality: Quality = Quality(unsure=(0.35, 0.35))
    informed: Quality = Quality(hits=(0.8, 0.75), alarms=(0.08, 0.08), unsure=(0.1, 0.1))
    correlation: float = 0.55
    found: float = 0.8
    base_rate: float = 0.3
    issues: int = 10_000
    hops: int = 1
    seed: int = 7


def simulate(setting: Setting) -> Report:
    """All variants on the same draws."""
    rng = np.random.default_rng(setting.seed)
    wrong = rng.random(setting.issues) < setting.base_rate
    first = _votes(rng, wrong, setting.quality, setting.correlation)
    again = [_votes(rng, wrong, setting.informed, setting.correlation) for _ in range(setting.hops)]
    found = rng.random((setting.hops, setting.issues, 2)) < setting.found
    truth = tuple(bool(one) for one in wrong)
    flags = {
        f"single {name}": [pair[place] is Vote.HALLUCINATION for pair in first] for place, name in enumerate(NAMES)
    }
    for variant in (Variant.OR, Variant.AND):
        flags[variant.value] = [decide(variant, pair).outcome is Outcome.HALLUCINATION for pair in first]
    for hops in range(1, setting.hops + 1):
        steps = [first, *again[:hops]]
        flags[f"multi_hop {hops}"] = [
            _hopping([step[issue] for step in steps], found[:, issue]) for issue in range(setting.issues)
        ]
    one, two = flags["single one"], flags["single two"]
    results = tuple(Result(name=name, measures=Measures(truth, tuple(flag))) for name, flag in flags.items())
    among = [place for place, is_wrong in enumerate(truth) if is_wrong]
    agreement = Agreement(
        judges=NAMES,
        overall=phi(one, two),
        interval=None,
        hallucinations=phi([one[place] for place in among], [two[place] for place in among]),
    )
    return Report(results=results, agreements=(agreement,), issues=setting.issues, abstained={})


def _hopping(steps: Sequence[tuple[Vote, Vote]], found: NDArray[np.bool_]) -> bool:
    last = len(steps) - 1
    for hop, votes in enumerate(steps):
        outcome = decide(Variant.MULTI_HOP, votes, hops_left=last - hop).outcome
        if outcome is not Outcome.ASK:
            return outcome is Outcome.HALLUCINATION
        unsure = [place for place, vote in enumerate(votes) if vote is Vote.UNDETERMINED]
        if not any(found[hop][place] for place in unsure):
            return False
    raise AssertionError("the last step never asks")


def _votes(
    rng: np.random.Generator, wrong: NDArray[np.bool_], quality: Quality, correlation: float
) -> list[tuple[Vote, Vote]]:
    covariance = [[1.0, correlation], [correlation, 1.0]]
    draws = rng.multivariate_normal([0.0, 0.0], covariance, size=len(wrong))
    kinds = np.empty((len(wrong), 2), dtype=int)
    for place in range(2):
        rate = np.where(wrong, quality.hits[place], quality.alarms[place])
        low, high = _quantiles(rate), _quantiles(np.minimum(rate + quality.unsure[place], 1.0))
        kinds[:, place] = np.where(draws[:, place] < low, 0, np.where(draws[:, place] < high, 1, 2))
    return [(_VOTES[one], _VOTES[two]) for one, two in kinds]


def _quantiles(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    normal = NormalDist()
    known = {rate: normal.inv_cdf(min(max(rate, 1e-9), 1 - 1e-9)) for rate in np.unique(rates).tolist()}
    return np.array([known[rate] for rate in rates.tolist()])
