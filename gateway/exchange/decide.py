"""From verdicts to what happens. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from checks.types import CheckedFact, Reason, Status, Verdict
from gateway.config.model import Policy, RouteConfig
from gateway.config.modes import Action


class Decision(StrEnum):
    """What is done with an answer once its verdicts are there."""

    PASS = "pass"  # noqa: S105 - a decision, not a password
    BLOCK = "block"
    REPAIR = "repair"
    FILTER = "filter"


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


def decide(config: RouteConfig, action: Action, verdicts: Sequence[Verdict], *, repaired: bool) -> Decision:
    """One choice that stands in the way decides for the whole answer.

    An answer that is not checked as a whole cannot be filtered fact by fact, so a route that blocks on its reason
    blocks it.
    """
    bad = [v for v in verdicts if objectionable(config, v.status, v.reason)]
    if not bad:
        return Decision.PASS
    if action is Action.ANNOTATE:
        if any(v.status is Status.NOT_CHECKED for v in bad):
            return Decision.BLOCK
        return Decision.PASS
    if action is Action.REPAIR:
        if not repaired:
            return Decision.REPAIR
        return Decision.BLOCK if config.repair_failed is Policy.BLOCK else Decision.PASS
    if action is Action.FILTER:
        filterable = all(any(droppable(config, f) for f in v.facts) for v in bad)
        return Decision.FILTER if filterable else Decision.BLOCK
    return Decision.BLOCK
