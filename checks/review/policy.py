"""What a label means for an issue: keep it, annotate it, drop it, correct its line. Pure.

Severe and security issues are never dropped on one judge's word, nor on a program's: they are annotated instead, and
`guard` says so. Knows no votes beyond how many judges condemned the issue, and nothing of formats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from checks.review.types import Issue, Severity, Treated, Treatment
from checks.types import IssueLabel

GUARDED: Final = "guarded"
"""What `Handling.guard` says when a severe or security issue was annotated in place of dropped."""

_SEVERE = frozenset({Severity.CRITICAL, Severity.HIGH})
_JUDGES_NEEDED = 2
_LONGEST_NOTE = 300

# What issues about security are called, by reviewers that give no severity.
_SECURITY = re.compile(
    r"secur|vulnerab|injection|\bxss\b|\bcsrf\b|\bssrf\b|\bxxe\b|\brce\b|\bcve-\d|\bcwe-\d|travers|deseriali|privilege"
    r"|authenticat|authoriz|authoris|credential|password|secret|\btoken leak|data leak|cryptograph|hard-?coded key"
    r"|buffer overflow|use[- ]after[- ]free|out[- ]of[- ]bounds|sanitiz|sanitis|untrusted",
    re.IGNORECASE,
)
_NITPICK_CATEGORY = re.compile(
    r"nit|style|format|naming|typo|spelling|whitespace|readab|documentation|comment", re.IGNORECASE
)
_NITPICK_TEXT = re.compile(r"^\W*(?:nit(?:pick)?|style|minor|typo)\b", re.IGNORECASE)


class Act(StrEnum):
    """What is done with an issue, in rising order."""

    KEEP = "keep"
    ANNOTATE = "annotate"
    DROP = "drop"


_ORDER = tuple(Act)
_TREATMENT = {Act.KEEP: Treatment.KEEP, Act.ANNOTATE: Treatment.MARK, Act.DROP: Treatment.DROP}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What each outcome does. `abstained` is for issues that could not be judged."""

    hallucination: Act = Act.DROP
    undetermined: Act = Act.KEEP
    abstained: Act = Act.KEEP

    def of(self, label: IssueLabel | None) -> Act:
        """What a label, or None for no label, does."""
        if label is None:
            return self.abstained
        return {IssueLabel.HALLUCINATION: self.hallucination, IssueLabel.UNDETERMINED: self.undetermined}.get(
            label, Act.KEEP
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The policy of a route, and of single severities. `nitpicks` is for issues that are not hallucinated, but a
    matter of taste by their reviewer's own words; `relocate` corrects lines that quoted code proves wrong."""

    general: Policy = field(default_factory=Policy)
    severities: Mapping[Severity, Policy] = field(default_factory=dict)
    nitpicks: Act = Act.KEEP
    relocate: bool = True

    def of(self, issue: Issue) -> Policy:
        """The policy in force for an issue."""
        return self.general if issue.severity is None else self.severities.get(issue.severity, self.general)

    @property
    def version(self) -> str:
        """As it stands in records."""

        def words(policy: Policy) -> str:
            return f"{policy.hallucination.value},{policy.undetermined.value},{policy.abstained.value}"

        each = "".join(f";{severity.value}={words(policy)}" for severity, policy in sorted(self.severities.items()))
        return f"{words(self.general)};nitpicks={self.nitpicks.value}{each}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """What happens to one issue, and the words a mark says. `lines` is where it really belongs, None to leave it."""

    act: Act
    note: str = ""
    guard: str = ""
    lines: tuple[int, int] | None = None

    @property
    def action(self) -> str:
        """The word of `CheckedIssue.action`."""
        if self.act is Act.KEEP:
            return "relocate" if self.lines is not None else "keep"
        return "mark" if self.act is Act.ANNOTATE else "drop"

    def treated(self, label: IssueLabel | None, *, drop: bool = True) -> Treated:
        """For the edits of the answer; with `drop` False nothing leaves, what would is marked."""
        act = Act.ANNOTATE if self.act is Act.DROP and not drop else self.act
        start, end = self.lines if self.lines is not None else (None, None)
        return Treated(treatment=_TREATMENT[act], note=self.note, label=label, start_line=start, end_line=end)


def handle(
    issue: Issue,
    label: IssueLabel | None,
    policies: Policies,
    *,
    condemning: int = 0,
    why: str = "",
    lines: tuple[int, int] | None = None,
) -> Handling:
    """What happens to an issue of this label. `condemning` judges said Hallucination, `why` is the reason given."""
    act, guard = policies.of(issue).of(label), ""
    if label is not IssueLabel.HALLUCINATION and is_nitpick(issue):
        act = max(act, policies.nitpicks, key=_ORDER.index)
    if act is Act.DROP and is_grave(issue) and condemning < _JUDGES_NEEDED:
        act, guard = Act.ANNOTATE, GUARDED
    lines = lines if policies.relocate and act is not Act.DROP else None
    return Handling(act=act, note=note(label, why, nitpick=is_nitpick(issue)), guard=guard, lines=lines)


def is_grave(issue: Issue) -> bool:
    """Whether an issue is severe, or about security, by its reviewer's own words."""
    if issue.severity in _SEVERE or (issue.category is not None and _SECURITY.search(issue.category)):
        return True
    return _SECURITY.search(f"{issue.title}\n{issue.body}") is not None


def is_nitpick(issue: Issue) -> bool:
    """Whether an issue is a matter of taste, by its reviewer's own words; a grave one never is."""
    if issue.severity in _SEVERE or issue.severity is Severity.MEDIUM or is_grave(issue):
        return False
    if issue.category is not None and _NITPICK_CATEGORY.search(issue.category):
        return True
    return issue.severity is Severity.INFO or _NITPICK_TEXT.match(issue.title or issue.body) is not None


def note(label: IssueLabel | None, why: str, *, nitpick: bool = False) -> str:
    """What a mark in the answer says, on one line."""
    said = {
        IssueLabel.HALLUCINATION: "not borne out by the code",
        IssueLabel.UNDETERMINED: "could not be decided by the code",
        IssueLabel.VALID: "a matter of taste" if nitpick else "borne out by the code",
        None: "could not be checked",
    }[label]
    reason = " ".join(why.split())
    # Who says so, and the label, stand in the mark around it.
    text = f"{said}{f': {reason}' if reason else ''}"
    return text if len(text) <= _LONGEST_NOTE else f"{text[: _LONGEST_NOTE - 3]}..."
