"""What a judge's reply counts for: one of three labels, or an abstention. Pure.

A reply is believed only as far as it can be held against what the judge was shown: a quote that stands in none of the
exhibits, or something said to be absent that stands there, makes the judge abstain. Knows no ensemble and no policy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from checks.review.prompts import QUESTIONS, Exhibit, visible
from checks.types import JudgeReply, Reason

_SHORTEST_QUOTE = 3
_LINE_NUMBER = re.compile(r"^[ \t]*\d+[ \t]*[|:│][ \t]?", re.MULTILINE)
_MARK = re.compile(r"^[+-]", re.MULTILINE)
_ELLIPSIS = re.compile(r"\s*(?:\.\.\.|…)\s*")
_WORD = re.compile(r"\w+|[^\w\s]")
_TRIM = " \t\r\n\"'`“”«»"


class Vote(StrEnum):
    """One judge's word on one issue at one hop."""

    VALID = "valid"
    HALLUCINATION = "hallucination"
    UNDETERMINED = "undetermined"
    ABSTAIN = "abstain"


EVALUATIONS: Mapping[str, Vote] = {
    "Valid Issue": Vote.VALID,
    "Hallucination": Vote.HALLUCINATION,
    "Undetermined": Vote.UNDETERMINED,
}
"""The three words a judge may say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """A vote with what led to it. `said` is the label before quotes were held against the code, "" without a reply;
    `reason` says why the judge abstains."""

    judge: str
    hop: int
    vote: Vote
    said: str = ""
    why: str = ""
    questions: tuple[tuple[str, str], ...] = ()
    quotes: tuple[str, ...] = ()
    reason: Reason | None = None
    cached: bool = False

    def told(self) -> dict[str, Any]:
        """The keys of `CheckedIssue.votes`."""
        return {
            "judge": self.judge,
            "hop": self.hop,
            "label": self.vote.value if self.vote is not Vote.ABSTAIN else None,
            "said": self.said,
            "reason": self.why,
            "questions": [{"question": question, "answer": answer} for question, answer in self.questions],
            "quotes": list(self.quotes),
            "abstained": self.reason.value if self.reason is not None else None,
            "cached": self.cached,
        }


def abstention(judge: str, hop: int, reason: Reason, why: str) -> Ballot:
    """The ballot of a judge that could not be asked, or gave no usable reply."""
    return Ballot(judge=judge, hop=hop, vote=Vote.ABSTAIN, why=why, reason=reason)


def ballot(judge: str, hop: int, reply: JudgeReply, shown: Sequence[Exhibit], *, cached: bool = False) -> Ballot:
    """The vote a reply to an evaluation prompt counts for, with what it quotes held against what was shown."""
    if reply.value is None:
        return abstention(judge, hop, reply.reason or Reason.JUDGE_REPLY_INVALID, reply.call.error)
    value = reply.value
    said = EVALUATIONS[str(value["evaluation"])]
    quotes = tuple(quote for quote in value["quotes"] if quote.strip(_TRIM))
    objection, why = _objection(said, quotes, value["absent"], shown), str(value["evaluation_reason"])
    return Ballot(
        judge=judge,
        hop=hop,
        vote=Vote.ABSTAIN if objection else said,
        said=said.value,
        why=f"{objection} (the judge's reason: {why})" if objection else why,
        questions=tuple((str(value[f"question_{n}"]), str(value[f"answer_{n}"])) for n in range(1, QUESTIONS + 1)),
        quotes=quotes,
        reason=Reason.JUDGE_REPLY_INVALID if objection else None,
        cached=cached,
    )  # fmt: skip


def _objection(said: Vote, quotes: Sequence[str], absent: Sequence[str], shown: Sequence[Exhibit]) -> str:
    """Why the reply cannot be believed, "" when nothing speaks against it."""
    for quote in quotes:
        if not any(stands_in(quote, exhibit.text) for exhibit in shown):
            return f"quotes what stands in no file it was shown: {_short(quote)}"
    # Only a hallucination rests on absence: a valid remark may well say that something is missing elsewhere.
    if said is Vote.HALLUCINATION:
        for name in absent:
            place = next((exhibit for exhibit in shown if _names(name, exhibit.whole or exhibit.text)), None)
            if place is not None:
                return f"says that {_short(name)} is absent, but it stands in {place.path}"
    return ""


def stands_in(quote: str, text: str) -> bool:
    """Whether a quote occurs in a text: white space, line numbers, and the marks of a diff aside, in order, each piece
    between ellipses for itself. A quote too short to mean anything counts as standing there."""
    quote = _LINE_NUMBER.sub("", quote).strip(_TRIM)
    return _in_order(quote, _bare(text)) or _in_order(_MARK.sub("", quote), _bare(_MARK.sub("", text)))


def _in_order(quote: str, bare: str) -> bool:
    at = 0
    for piece in _ELLIPSIS.split(quote):
        wanted = _bare(piece.strip(_TRIM))
        if len(wanted) < _SHORTEST_QUOTE:
            continue
        found = bare.find(wanted, at)
        if found < 0:
            return False
        at = found + len(wanted)
    return True


def _bare(text: str) -> str:
    """A text without white space, and with what is shown in place of invisible characters."""
    return "".join(visible(text).split())


def _names(name: str, text: str) -> bool:
    """Whether a name stands in a text as whole words; a sentence is no name and stands nowhere."""
    words = _WORD.findall(name.strip(_TRIM).removesuffix("()"))
    if not words or len("".join(words)) < _SHORTEST_QUOTE or len(words) > 12:
        return False
    pattern = r"\s*".join(re.escape(word) for word in words)
    return re.search(rf"(?<!\w){pattern}(?!\w)", text) is not None


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 80 else f"{flat[:77]}...")
