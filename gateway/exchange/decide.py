"""From verdicts to what happens. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from checks.types import CheckedFact, Reason, Status, Verdict
from gateway.config.model import Policy, RouteConfig
from gateway.config.modes import Action

REVIEW: Final = "code_review"


class Decision(StrEnum):
    """What is done with an answer once its verdicts are there."""

    PASS = "pass"  # noqa: S105 - a decision, not a password
    BLOCK = "block"
    REPAIR = "repair"
    FILTER = "filter"
    MARK = "annotate"
    """The verdicts of a review are written into the answer, in its own format; nothing is left out."""


def objectionable(config: RouteConfig, status: Status, reason: Reason | None) -> bool:
    """Whether a verdict or a fact stands in the way: failed, or not checked for a reason that the route blocks on."""
    if status is Status.FAILED:
        return True
    if status is Status.NOT_CHECKED and reason is not None:
        return config.unchecked_policy(reason) is Policy.BLOCK
    return False


def droppable(config: RouteConfig, fact: CheckedFact) -> bool:
    """Whether `filter` leaves this fact out."""
    return objectionable(config, fact.status, fact.reason)


def decide(
    config: RouteConfig, action: Action, verdicts: Sequence[Verdict], *, repaired: bool, held: bool = True
) -> Decision:
    """One choice that stands in the way decides for the whole answer.

    An answer that is not checked as a whole cannot be filtered fact by fact, so a route that blocks on its reason
    blocks it. `held` says that nothing of the answer has left, so that it can still be marked.
    """
    bad = [v for v in verdicts if objectionable(config, v.status, v.reason)]
    if action is Action.FILTER:
        return _filtering(config, bad, verdicts)
    if action is Action.ANNOTATE:
        if any(v.status is Status.NOT_CHECKED for v in bad):
            return Decision.BLOCK
        return Decision.MARK if held and any(v.marked for v in verdicts) else Decision.PASS
    if not bad:
        return Decision.PASS
    if action is Action.REPAIR:
        if not repaired:
            return Decision.REPAIR
        return Decision.BLOCK if config.repair_failed is Policy.BLOCK else Decision.PASS
    return Decision.BLOCK


def _filtering(config: RouteConfig, bad: Sequence[Verdict], verdicts: Sequence[Verdict]) -> Decision:
    """Facts that stand in the way are left out; of a review its check has said what is, and may say nothing."""
    if not all(_filterable(config, verdict) for verdict in bad):
        return Decision.BLOCK
    removes = any(v.filtered for v in verdicts) or any(v.kind != REVIEW for v in bad)
    return Decision.FILTER if removes else Decision.PASS


def _filterable(config: RouteConfig, verdict: Verdict) -> bool:
    if verdict.kind == REVIEW:
        return verdict.status is Status.FAILED
    return any(droppable(config, fact) for fact in verdict.facts)
