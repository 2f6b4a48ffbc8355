"""How votes become a decision: the tables of every variant, as data. Pure.

An abstention is an unknown vote, not a vote. A row with abstentions decides only what every vote that could have stood
in their place would have decided as well; all else is `ABSTAIN`, which is no verdict. The tables follow part III of
Korbit's series on hallucination detection for `multi_hop`; what the article leaves open is settled in
docs/decisions/0008-votes-and-hops.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from checks.review.votes import Vote
from checks.types import IssueLabel


class Variant(StrEnum):
    """How the votes of several judges are put together."""

    SINGLE = "single"
    OR = "or"
    AND = "and"
    MAJORITY = "majority"
    MULTI_HOP = "multi_hop"


class Outcome(StrEnum):
    """What a table says: one of the three labels, to ask for a further file, or that nothing can be said."""

    VALID = "valid"
    HALLUCINATION = "hallucination"
    UNDETERMINED = "undetermined"
    ABSTAIN = "abstain"
    ASK = "ask"

    @property
    def label(self) -> IssueLabel | None:
        """The label, None for what is none."""
        return None if self in (Outcome.ABSTAIN, Outcome.ASK) else IssueLabel(self.value)


class Quantity(StrEnum):
    """How many judges a row asks for."""

    ANY = "any"
    MOST = "most"
    """More than half of all judges, the abstaining ones included."""
    OUT_OF_REACH = "out_of_reach"
    """Neither `valid` nor `hallucination` could become the most, whatever the abstaining judges had said."""
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Row:
    """`quantity` judges voted `vote`: then `outcome`. The first row that fits decides; `name` stands in the record."""

    name: str
    quantity: Quantity
    vote: Vote | None
    outcome: Outcome


_ANY_HALLUCINATION = Row("any_hallucination", Quantity.ANY, Vote.HALLUCINATION, Outcome.HALLUCINATION)
_ANY_VALID = Row("any_valid", Quantity.ANY, Vote.VALID, Outcome.VALID)
_ANY_UNDETERMINED = Row("any_undetermined", Quantity.ANY, Vote.UNDETERMINED, Outcome.UNDETERMINED)
_ANY_ABSTENTION = Row("any_abstention", Quantity.ANY, Vote.ABSTAIN, Outcome.ABSTAIN)
_ALL_VALID = Row("all_valid", Quantity.ALWAYS, None, Outcome.VALID)
_ALL_HALLUCINATION = Row("all_hallucination", Quantity.ALWAYS, None, Outcome.HALLUCINATION)

EITHER: tuple[Row, ...] = (_ANY_HALLUCINATION, _ANY_ABSTENTION, _ANY_UNDETERMINED, _ALL_VALID)
"""Either one's Hallucination counts. Also the last step of `multi_hop`: an Undetermined that is left at the end keeps
its own label there, so that the policy can say what it means (by default the same as valid, as in the article)."""

BOTH: tuple[Row, ...] = (_ANY_VALID, _ANY_ABSTENTION, _ANY_UNDETERMINED, _ALL_HALLUCINATION)
"""All must say Hallucination."""

MOST: tuple[Row, ...] = (
    Row("most_hallucination", Quantity.MOST, Vote.HALLUCINATION, Outcome.HALLUCINATION),
    Row("most_valid", Quantity.MOST, Vote.VALID, Outcome.VALID),
    Row("no_majority", Quantity.OUT_OF_REACH, None, Outcome.UNDETERMINED),
    _ANY_ABSTENTION,
    Row("no_majority", Quantity.ALWAYS, None, Outcome.UNDETERMINED),
)
"""More than half of all judges."""

HOPPING: tuple[Row, ...] = (
    Row("any_undetermined", Quantity.ANY, Vote.UNDETERMINED, Outcome.ASK),
    _ANY_ABSTENTION,
    _ANY_HALLUCINATION,
    _ALL_VALID,
)
"""A step of `multi_hop` with hops left: Undetermined outranks Hallucination."""

TABLES: Mapping[Variant, tuple[Row, ...]] = {
    Variant.SINGLE: EITHER,
    Variant.OR: EITHER,
    Variant.AND: BOTH,
    Variant.MAJORITY: MOST,
    Variant.MULTI_HOP: EITHER,
}
"""The table of a variant's last (mostly only) step."""


class Request(StrEnum):
    """What became of one judge's request for a further file."""

    FOUND = "found"
    """A file that was not shown yet."""
    SHOWN = "shown"
    """Only files that stand in the prompt already."""
    REFUSED = "refused"
    """An empty path, or one that no file matches."""
    ABSTAIN = "abstain"
    """The judge gave no request that could be read."""


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A row of the table that says how it goes on after requests: `outcome` None asks all judges again."""

    name: str
    request: Request | None
    outcome: Outcome | None


REQUESTS: tuple[RequestRow, ...] = (
    RequestRow("file_found", Request.FOUND, None),
    RequestRow("request_abstained", Request.ABSTAIN, Outcome.ABSTAIN),
    RequestRow("no_further_file", None, Outcome.VALID),
)
"""One request for every judge that said Undetermined. A valid issue is never filtered for want of context: without a
further file the issue counts as valid, even beside another judge's Hallucination."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An outcome, and the row that gave it (`multi_hop.any_undetermined`)."""

    outcome: Outcome
    rule: str


def decide(variant: Variant, votes: Sequence[Vote], *, hops_left: int = 0) -> Decision:
    """The decision over one step's votes, one of each judge in any order. Raises `ValueError` without votes."""
    if not votes:
        raise ValueError("a decision needs at least one vote")
    asking = variant is Variant.MULTI_HOP and hops_left > 0
    for row in HOPPING if asking else TABLES[variant]:
        if _fits(row, votes):
            return Decision(row.outcome, f"{variant.value}.{row.name}")
    raise AssertionError("every table ends with a row that always fits")


def after_requests(requests: Sequence[Request]) -> Decision | None:
    """How it goes on after the requests of one hop: None asks all judges again, with the files found."""
    for row in REQUESTS:
        if row.request is None or row.request in requests:
            return None if row.outcome is None else Decision(row.outcome, f"{Variant.MULTI_HOP.value}.{row.name}")
    raise AssertionError("the table ends with a row that always fits")


def _fits(row: Row, votes: Sequence[Vote]) -> bool:
    if row.quantity is Quantity.ALWAYS:
        return True
    if row.quantity is Quantity.OUT_OF_REACH:
        best = max(votes.count(Vote.VALID), votes.count(Vote.HALLUCINATION))
        return 2 * (best + votes.count(Vote.ABSTAIN)) <= len(votes)
    assert row.vote is not None
    count = votes.count(row.vote)
    return count > 0 if row.quantity is Quantity.ANY else 2 * count > len(votes)
