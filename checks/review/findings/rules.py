"""What happens to fields that depend on the issues when issues are removed, as data. Knows no text.

`RULES` is the written rule per format; docs/review-formats.md prints it. The tables below it are what the readers of
JSON go by. Nothing here ever turns a refusal into an approval: a neutral word is put in its place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from checks.review.types import Severity


class Rule(StrEnum):
    """What is done: written anew from what stays, told beside it in words, or left as the reviewer's own business."""

    RECOMPUTED = "recomputed"
    MARKED = "marked"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class FieldRule:
    """One dependent field of one format. `when` says in which case, `how` what is written."""

    format: str
    field: str
    rule: Rule
    how: str


RULES: Final = (
    FieldRule("sarif", "runs[].results", Rule.RECOMPUTED, "the list gets shorter; a run that loses all has `[]`"),
    FieldRule("sarif", "rules, artifacts", Rule.KEPT, "indexes point into them, and unused ones are allowed"),
    FieldRule("rdjson", "severity", Rule.KEPT, "a default for diagnostics, no sum of them"),
    FieldRule("rdjsonl", "lines", Rule.RECOMPUTED, "the line leaves; no lines are a valid result"),
    FieldRule("github", "event", Rule.RECOMPUTED, "`REQUEST_CHANGES` without any comment becomes `COMMENT`"),
    FieldRule("github", "body", Rule.MARKED, "a sentence at its end says how many comments were removed"),
    FieldRule("gitlab", "notes", Rule.RECOMPUTED, "the list gets shorter"),
    FieldRule("codequality", "entries", Rule.RECOMPUTED, "the list gets shorter"),
    FieldRule(
        "codex",
        "overall_correctness",
        Rule.RECOMPUTED,
        "`patch is incorrect` without any finding becomes `patch is correct`, the only other word of the schema",
    ),
    FieldRule("codex", "overall_explanation", Rule.MARKED, "a sentence at its end says how many findings were removed"),
    FieldRule("codex", "overall_confidence_score", Rule.KEPT, "the reviewer's own; the explanation says what changed"),
    FieldRule("pr-agent", "key_issues_to_review, code_suggestions", Rule.RECOMPUTED, "`[]` when all have left"),
    FieldRule("pr-agent", "score, estimated effort, security_concerns", Rule.KEPT, "about the change, not the issues"),
    FieldRule("coderabbit", "Actionable comments posted: n", Rule.RECOMPUTED, "the number of those that stay"),
    FieldRule("coderabbit", "(n) in a summary line", Rule.RECOMPUTED, "the number of those that stay in that section"),
    FieldRule("coderabbit", "details sections", Rule.RECOMPUTED, "a section whose issues have all left goes with them"),
    FieldRule("permalinks", "Found n issues", Rule.RECOMPUTED, "the number of those that stay"),
    FieldRule("permalinks", "numbers of the list", Rule.RECOMPUTED, "counted anew"),
    FieldRule("json", "total, count, ..._count", Rule.RECOMPUTED, "where they were right before"),
    FieldRule("json", "counts by severity", Rule.RECOMPUTED, "where they were right before"),
    FieldRule("json", "verdict, decision, event, ...", Rule.RECOMPUTED, "a request for changes becomes a comment"),
    FieldRule("json", "summary, overview, conclusion, ...", Rule.MARKED, "a sentence at its end"),
    FieldRule("json", "approved, lgtm, passed, score", Rule.KEPT, "nothing is ever approved on the reviewer's behalf"),
    FieldRule("json", "minItems of the caller's schema", Rule.KEPT, "issues beyond it are marked in place of removed"),
    FieldRule("json", "a lone object", Rule.KEPT, "marked in place of removed: its reader needs an object"),
    FieldRule("markdown", "Found n issues", Rule.RECOMPUTED, "where it was right before"),
    FieldRule("markdown", "numbers of a list", Rule.RECOMPUTED, "counted anew"),
    FieldRule("markdown", "a table", Rule.RECOMPUTED, "a table that loses all rows goes with its header"),
    FieldRule("markdown", "other prose", Rule.KEPT, "no machine can tell what a sentence refers to"),
    FieldRule("pipe-rows", "rows", Rule.RECOMPUTED, "the line leaves"),
    FieldRule("checkstyle", "<file>", Rule.RECOMPUTED, "a file without errors goes with them"),
    FieldRule("workflow", "lines", Rule.RECOMPUTED, "the line leaves"),
)

# A verdict that cannot stand without any issue, and what stands for it then. Never an approval where there is a choice.
OPINIONS: Final = {
    "request_changes": "comment",
    "request changes": "comment",
    "requested_changes": "comment",
    "changes_requested": "comment",
    "changes requested": "comment",
    "needs_changes": "comment",
    "needs changes": "comment",
    "patch is incorrect": "patch is correct",
}
OPINION_KEYS: Final = frozenset(
    {"event", "verdict", "decision", "action", "status", "state", "conclusion", "recommendation", "result", "overall"}
    | {"overall_correctness", "overall_verdict", "review_decision"}
)
SUMMARY_KEYS: Final = frozenset(
    {"summary", "overview", "overall_summary", "overall_explanation", "explanation", "overall_comment", "conclusion"}
    | {"overall_feedback", "review_summary", "body"}
)
COUNT_KEY: Final = re.compile(
    r"(?:total|count|num|number)(?:_?of)?(?:_?(?:issues|findings|comments|problems|suggestions|violations))?"
    r"|(?:issues?|findings?|comments?|problems?|suggestions?|violations?)_?(?:count|total|found)",
    re.IGNORECASE,
)
SEVERITY_KEYS: Final = {
    "critical": Severity.CRITICAL,
    "blocker": Severity.CRITICAL,
    "high": Severity.HIGH,
    "error": Severity.HIGH,
    "errors": Severity.HIGH,
    "major": Severity.HIGH,
    "medium": Severity.MEDIUM,
    "warning": Severity.MEDIUM,
    "warnings": Severity.MEDIUM,
    "low": Severity.LOW,
    "minor": Severity.LOW,
    "info": Severity.INFO,
}


def neutral(verdict: str) -> str | None:
    """What stands for a verdict once no issue supports it, in the same case; None for one that can stand alone."""
    found = OPINIONS.get(verdict.strip().lower())
    return found.upper() if found is not None and verdict.isupper() else found


def removed(number: int, of: int) -> str:
    """The sentence that tells of removed issues."""
    return f"[{number} of {of} issues removed by the check against the code.]"
