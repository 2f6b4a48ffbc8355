from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checks.review.evidence import EvidenceFound, EvidenceKind, collect
from checks.review.request_files import read_messages
from checks.review.retraction import retraction
from checks.review.snapshot import GitSnapshot
from checks.review.types import Issue, Side, Snapshot
from checks.types import IssueLabel
from tests.checks.review.repos import Repo

SAVE = "\n\ndef save(row):\n    db.write(row)\n"
BASE = {
    "shop/order.py": f"import db\n\n\ndef load(key):\n    return db.fetch_one(key)\n{SAVE}",
    "shop/old.py": "def gone():\n    return legacy_value\n",
    "shop/moved.py": "".join(f"line_{n} = {n}\n" for n in range(12)),
    "unrelated.py": "x = 1\n",
}
HEAD = {
    "shop/order.py": f"import db\n\n\ndef load(key):\n    row = db.fetch_one(key)\n    return row\n{SAVE}",
    "lib/moved.py": BASE["shop/moved.py"] + "more = 1\n",
    "unrelated.py": "x = 1\n",
    "logo.bin": b"\0\0",
    "yarn.lock": "a@1\n",
}


@pytest.fixture
def here(tmp_path: Path) -> Snapshot:
    repo = Repo(tmp_path / "r.git")
    base = repo.commit(BASE)
    head = repo.commit(HEAD, base)
    return GitSnapshot(repo.git, name="app", revision=head, base_revision=base, notes=("a note",))


def issue(path: str | None = "shop/order.py", line: int | None = 5, body: str = "", **more: Any) -> Issue:
    return Issue(number=0, format="json", path=path, start_line=line, end_line=more.pop("end", line), body=body, **more)


def found(of: Issue, snapshot: Snapshot) -> dict[EvidenceKind, EvidenceFound]:
    return {one.kind: one for one in collect(of, snapshot) if one.kind is not EvidenceKind.SNAPSHOT_NOTE}


def kinds(of: Issue, snapshot: Snapshot) -> set[EvidenceKind]:
    return set(found(of, snapshot))


def test_a_right_remark_has_nothing_held_against_it(here: Snapshot) -> None:
    assert kinds(issue(body="`db.fetch_one(key)` may return None and `load` hands it on."), here) == set()


def test_an_invented_file_and_function_are_told_with_the_commit_they_were_looked_for_in(here: Snapshot) -> None:
    told = found(issue("shop/payments.py", 40, body="`charge_card()` swallows the error of `PaymentError`."), here)
    assert set(told) == {EvidenceKind.PATH_ABSENT, EvidenceKind.SYMBOL_ABSENT}
    assert here.revision[:12] in told[EvidenceKind.PATH_ABSENT].detail
    assert all(one.proves is None for one in told.values())


def test_a_name_that_the_remark_only_proposes_is_not_called_missing(here: Snapshot) -> None:
    assert kinds(issue(body="Consider extracting it into `load_checked` and add `RetryPolicy`."), here) == set()


def test_a_name_that_the_change_removed_is_not_called_invented(here: Snapshot) -> None:
    told = kinds(issue("shop/old.py", 2, body="`legacy_value` was used here.", side=Side.LEFT), here)
    assert told == {EvidenceKind.FILE_DELETED}


def test_a_file_meant_by_another_path_is_named_and_a_tie_lists_its_candidates(here: Snapshot) -> None:
    told = found(issue("src/shop/order.py"), here)[EvidenceKind.PATH_MATCHED]
    assert told.path == "shop/order.py"


def test_a_line_past_the_end_is_told_and_a_line_of_the_file_is_not(here: Snapshot) -> None:
    assert EvidenceKind.LINE_PAST_END in kinds(issue(line=99), here)
    assert EvidenceKind.LINE_PAST_END not in kinds(issue(line=10), here)


def test_a_right_remark_on_a_wrong_line_is_moved_to_its_code_and_into_the_change(here: Snapshot) -> None:
    of = issue(line=1, body="see", extra={"existing_code": "  row   = db.fetch_one(key)\n  return row\n"})
    told = found(of, here)[EvidenceKind.QUOTE_ELSEWHERE]
    assert (told.start_line, told.end_line, told.in_change, told.proves) == (5, 6, True, None)


def test_quoted_code_that_is_nowhere_is_told_unless_the_change_removed_it(here: Snapshot) -> None:
    absent = issue(body="x", extra={"existing_code": "db.execute('DROP TABLE')"})
    assert EvidenceKind.QUOTE_ABSENT in kinds(absent, here)
    removed = issue(body="x", extra={"existing_code": "return db.fetch_one(key)"})
    assert EvidenceKind.QUOTE_ABSENT not in kinds(removed, here)


def test_a_remark_on_a_file_the_change_never_touched_is_told(here: Snapshot) -> None:
    assert kinds(issue("unrelated.py", 1), here) == {EvidenceKind.FILE_UNTOUCHED}


def test_a_comment_outside_of_every_hunk_is_told_since_hosts_refuse_the_whole_review(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "r.git")
    text = "".join(f"v{n} = {n}\n" for n in range(60))
    base = repo.commit({"a.py": text})
    head = repo.commit({"a.py": text.replace("v30 = 30", "v30 = 31")}, base)
    here = GitSnapshot(repo.git, name="app", revision=head, base_revision=base)
    told = found(issue("a.py", 5), here)[EvidenceKind.LINE_OUTSIDE_CHANGE]
    assert "28-34" in told.detail
    assert kinds(issue("a.py", 31), here) == set()


def test_a_renamed_file_is_found_under_both_its_paths(here: Snapshot) -> None:
    for path, side in (("shop/moved.py", Side.RIGHT), ("lib/moved.py", Side.LEFT), ("lib/moved.py", Side.RIGHT)):
        told = kinds(issue(path, 12, side=side), here)
        assert EvidenceKind.FILE_RENAMED in told
        assert EvidenceKind.PATH_ABSENT not in told


def test_binary_and_generated_files_are_told_and_not_called_absent(here: Snapshot) -> None:
    assert EvidenceKind.NOT_A_TEXT_FILE in kinds(issue("logo.bin", None), here)
    assert EvidenceKind.GENERATED_FILE in kinds(issue("yarn.lock", 1), here)


def test_a_remark_about_another_commit_is_told_and_the_notes_of_the_snapshot_are_passed_on(here: Snapshot) -> None:
    assert EvidenceKind.REVISION_MISMATCH in kinds(issue(revision="f" * 40), here)
    assert kinds(issue(revision=here.revision), here) == set()
    assert collect(issue(), here)[0].detail == "a note"


def test_what_a_request_does_not_show_is_never_called_absent() -> None:
    here = read_messages([("user", "```python a.py\nx = 1\n```")])
    assert here is not None
    of = issue("b.py", 99, body="`missing_name` in `other_file.call(x)` is wrong", extra={"existing_code": "nope()"})
    assert collect(of, here) == ()
    assert collect(issue("a.py", 99, extra={"existing_code": "nope()"}), here) == ()


def test_an_issue_that_takes_itself_back_is_decided_without_a_model(here: Snapshot) -> None:
    of = issue(title="SQL injection", body="The query looks unsafe. On closer inspection, this is not an issue.")
    (told,) = [one for one in collect(of, here) if one.proves is not None]
    assert (told.kind, told.proves) == (EvidenceKind.SELF_RETRACTED, IssueLabel.HALLUCINATION)


@pytest.mark.parametrize(
    "body",
    [
        "The guard is there. Actually, there is no issue here.",
        "Wait, the code is correct.",
        "It looked racy.\n\n**Conclusion:** no bug.",
        "Both callers hold the lock, so no change is needed.\nNo action required.",
        "This is a false positive.",
    ],
)
def test_a_withdrawal_is_recognised(body: str) -> None:
    assert retraction("Possible race", body)


@pytest.mark.parametrize(
    "body",
    [
        "If the caller checks it: no issue.",
        "This is not an issue today. However, it should be guarded.",
        "There is no issue with the lock, but the read is racy.",
        "No error is returned, so callers think it worked.",
        "The code is correct only for ASCII.",
        "There is no problem handling here.",
        "This is fine if the list is short, otherwise it is quadratic.",
        "```\nno issue here\n```",
        "",
    ],
)
def test_a_real_finding_is_not_taken_for_a_withdrawal(body: str) -> None:
    assert retraction("Possible race", body) is None
