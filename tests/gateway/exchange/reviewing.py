"""A code-review check by script: issues are written `[file.py:3] what it says.`, and their words decide."""

from __future__ import annotations

import re

from checks.types import (
    Case,
    CheckedIssue,
    IssueLabel,
    JudgeCall,
    Reason,
    Status,
    TextEdit,
    Verdict,
)

_ISSUE = re.compile(r"\[(\w+\.py):(\d+)\] ([^\[\]\n\"\\]+?\.) ?")


class WordReview:
    """`made up` is a hallucination, `severe` one that is only marked, `unsure` undetermined, `away` not judged."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    @property
    def kind(self) -> str:
        return "code_review"

    async def check(self, case: Case) -> Verdict:
        self.cases.append(case)
        issues = tuple(_checked(found) for found in _ISSUE.finditer(case.answer))
        if not issues:
            return Verdict(self.kind, Status.NOT_CHECKED, Reason.NO_FACTS, case.choice, detail="no issue was found")
        failed = any(issue.status is Status.FAILED for issue in issues)
        return Verdict(
            kind=self.kind,
            status=Status.FAILED if failed else Status.PASSED,
            choice=case.choice,
            issues=issues,
            filtered=tuple(
                TextEdit(issue.start, issue.end)
                if issue.action == "drop"
                else TextEdit(issue.start, issue.start, "(?) ")
                for issue in issues
                if issue.action != "keep"
            ),
            marked=tuple(TextEdit(issue.start, issue.start, "(?) ") for issue in issues if issue.action != "keep"),
            versions={"check": "words"},
            details={"repository": case.options.get("repository"), "revision": "abc123"},
        )


class Misfit(WordReview):
    """Gives edits that lie outside the text it was given."""

    async def check(self, case: Case) -> Verdict:
        return Verdict(self.kind, Status.FAILED, filtered=(TextEdit(3, 2), TextEdit(9_999, 10_000)))


def _checked(found: re.Match[str]) -> CheckedIssue:
    path, line, title = found.groups()
    label = IssueLabel.HALLUCINATION if "made up" in title else IssueLabel.VALID
    label = IssueLabel.UNDETERMINED if "unsure" in title else label
    action = "keep" if label is not IssueLabel.HALLUCINATION else "mark" if "severe" in title else "drop"
    votes = [{"judge": "one", "hop": 0, "label": label.value, "reason": f"the code says so about {title}"}]
    return CheckedIssue(
        path=path,
        start_line=int(line),
        end_line=int(line),
        title=title,
        status=Status.FAILED if label is IssueLabel.HALLUCINATION else Status.PASSED,
        label=label,
        votes=tuple(votes),
        calls=(JudgeCall("one", "m", "review", "shown", "said", 10, 2, 0.25),),
        start=found.start(),
        end=found.end(),
        severity="high" if "severe" in title else "low",
        action=action,
        rule="any_hallucination",
        hop={"asked": "lib/b.py", "matched": "src/lib/b.py", "how": "suffix"},
        files=({"path": path, "blob": "b10b", "start_line": 1, "end_line": 9, "hop": 0},),
        evidence=({"kind": "path_absent", "detail": f"no file {path}, says {title}"},),
    )
