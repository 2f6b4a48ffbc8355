"""What a label does to an issue: nothing leaves in silence, and nothing grave leaves on one word."""

from __future__ import annotations

from itertools import product

import pytest

from checks.review.policy import Act, Policies, Policy, handle, is_grave, is_nitpick
from checks.review.types import Issue, Severity, Treatment
from checks.types import IssueLabel

H, V, U = IssueLabel.HALLUCINATION, IssueLabel.VALID, IssueLabel.UNDETERMINED


def issue(title: str = "Off by one", severity: Severity | None = Severity.MEDIUM, category: str | None = None) -> Issue:
    return Issue(number=0, format="json", path="a.py", title=title, severity=severity, category=category)


def test_by_default_hallucinations_leave_and_everything_unsure_stays() -> None:
    acts = {label: handle(issue(), label, Policies(), condemning=1).act for label in (H, V, U, None)}
    assert acts == {H: Act.DROP, V: Act.KEEP, U: Act.KEEP, None: Act.KEEP}


def test_a_true_critical_is_not_deleted_by_one_light_judge() -> None:
    """A verifier refuted a real SQL injection: one judge, or a program, may mark it, never delete it."""
    severe = issue("Query is built by concatenation", Severity.CRITICAL)
    security = issue("Possible SQL injection through `name`", None)
    for grave in (severe, security):
        one = handle(grave, H, Policies(), condemning=1, why="placeholders are used")
        assert (one.action, one.guard) == ("mark", "guarded")
        assert "placeholders are used" in one.note
        assert handle(grave, H, Policies(), condemning=0).act is Act.ANNOTATE
        assert handle(grave, H, Policies(), condemning=2).act is Act.DROP


@pytest.mark.parametrize("label", [H, U, None])
def test_no_policy_lets_a_grave_issue_be_dropped_on_less_than_two_words(label: IssueLabel | None) -> None:
    everything = Policies(general=Policy(hallucination=Act.DROP, undetermined=Act.DROP, abstained=Act.DROP))
    for condemning in (0, 1):
        assert handle(issue(severity=Severity.HIGH), label, everything, condemning=condemning).act is Act.ANNOTATE


def test_a_severity_may_have_its_own_policy() -> None:
    policies = Policies(severities={Severity.LOW: Policy(undetermined=Act.DROP)})
    assert handle(issue(severity=Severity.LOW), U, policies).act is Act.DROP
    assert handle(issue(severity=Severity.MEDIUM), U, policies).act is Act.KEEP


@pytest.mark.parametrize(
    ("title", "severity", "category", "grave", "nitpick"),
    [
        ("nit: rename x", None, None, False, True),
        ("Trailing whitespace", Severity.INFO, None, False, True),
        ("Rename helper", Severity.LOW, "style", False, True),
        ("Rename helper", Severity.MEDIUM, "style", False, False),
        ("Null pointer", None, None, False, False),
        ("nit: password is logged", None, None, True, False),
        ("Check", None, "security", True, False),
        ("Loop never ends", Severity.HIGH, None, True, False),
    ],
)
def test_what_is_grave_and_what_is_taste_goes_by_the_reviewers_own_words(
    title: str, severity: Severity | None, category: str | None, grave: bool, nitpick: bool
) -> None:
    asked = issue(title, severity, category)
    assert (is_grave(asked), is_nitpick(asked)) == (grave, nitpick)


def test_nitpicks_leave_only_where_the_route_says_so() -> None:
    nit = issue("nit: rename x", None)
    assert handle(nit, V, Policies()).act is Act.KEEP
    assert handle(nit, V, Policies(nitpicks=Act.DROP)).act is Act.DROP
    assert handle(nit, H, Policies(general=Policy(hallucination=Act.KEEP), nitpicks=Act.DROP)).act is Act.KEEP


def test_a_wrong_line_is_corrected_and_does_not_condemn_the_issue() -> None:
    moved = handle(issue(), V, Policies(), lines=(7, 9))
    assert moved.action == "relocate"
    assert (moved.treated(V).start_line, moved.treated(V).end_line) == (7, 9)
    assert handle(issue(), V, Policies(relocate=False), lines=(7, 9)).action == "keep"


@pytest.mark.parametrize(("act", "label"), [*product(Act, [H, V, U, None])])
def test_annotating_never_removes_an_issue(act: Act, label: IssueLabel | None) -> None:
    policies = Policies(general=Policy(hallucination=act, undetermined=act, abstained=act))
    treated = handle(issue(), label, policies, condemning=2).treated(label, drop=False)
    assert treated.treatment is not Treatment.DROP


def test_a_mark_is_one_short_line_whatever_the_judge_wrote() -> None:
    note = handle(issue(), H, Policies(), condemning=2, why="first\nsecond\n" * 200).note
    assert "\n" not in note
    assert len(note) <= 300
