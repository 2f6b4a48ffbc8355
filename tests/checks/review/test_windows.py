from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from checks.review.types import SourceFile
from checks.review.windows import LONGEST_LINE, Window, window

METHOD = "    def method_{n}(self):\n        value = helper_{n}()\n        return value\n\n"
LARGE = (
    "import os\nimport sys\n\n\nclass Big:\n"
    + "".join(METHOD.format(n=n) for n in range(200))
    + "\n\ndef helper_150():\n    return 1\n"
)


def source(text: str, **more: object) -> SourceFile:
    return SourceFile(path="big.py", blob="b", text=text, **more)  # type: ignore[arg-type]


def numbers(of: Window) -> list[int]:
    return [int(row.partition("|")[0]) for row in of.text.split("\n")]


def test_a_file_that_fits_is_shown_whole_with_its_line_numbers() -> None:
    shown = window(source("a\nb\n"), (1, 1), budget_chars=100)
    assert (shown.text, shown.ranges, shown.whole) == ("1| a\n2| b", ((1, 2),), True)


def test_a_large_file_shows_the_issue_its_whole_method_its_class_the_imports_and_the_symbols() -> None:
    line = 6 + 4 * 100 + 1  # in method_100
    shown = window(source(LARGE), (line, line), ["helper_150"], budget_chars=1200)
    rows = set(numbers(shown))
    assert {1, 2, 5, line - 1, line, line + 1} <= rows
    definition = LARGE.split("\n").index("def helper_150():") + 1
    assert {definition, definition + 1} <= rows
    assert len(shown.text) <= 1200


def test_what_is_left_out_is_told_beside_the_code_and_never_within_it() -> None:
    shown = window(source(LARGE), (407, 407), budget_chars=800)
    lines = LARGE.split("\n")
    for row in shown.text.split("\n"):
        number, _, text = row.partition("| ")
        assert text == lines[int(number) - 1]
    first, last = shown.left_out[0]
    assert f"{first}-{last}" in shown.note
    assert f"of {len(lines) - 1} exist and are not shown" in shown.note


def test_one_endless_line_is_cut_and_the_cut_is_told() -> None:
    shown = window(source("x" * 50_000 + "\ny\n"), (1, 1), budget_chars=5_000)
    assert len(shown.text) < LONGEST_LINE + 20
    assert f"line 1 has 50000 characters, of which the first {LONGEST_LINE} are shown" in shown.note
    assert not shown.whole


def test_a_partial_file_keeps_its_line_numbers_and_says_what_is_known() -> None:
    shown = window(source("a\n\n\nb", first_line=10, partial=True, known=((10, 10), (13, 13))), None, budget_chars=100)
    assert shown.text == "10| a\n13| b"
    assert "only a part of this file is known, lines 10, 13" in shown.note


def test_an_issue_past_the_end_shows_the_end() -> None:
    shown = window(source(LARGE), (99_999, 99_999), budget_chars=300)
    assert numbers(shown)[-1] == LARGE.count("\n")


@given(st.text("ab \n{}():", max_size=200), st.integers(0, 20), st.integers(0, 20), st.integers(0, 200))
def test_every_line_is_either_shown_or_told(text: str, start: int, length: int, budget: int) -> None:
    shown = window(source(text), (start, start + length), ["ab"], budget_chars=budget)
    count = len(text.split("\n")) - (1 if "\n" in text and text.endswith("\n") else 0)
    covered = sorted(n for a, b in [*shown.ranges, *shown.left_out] for n in range(a, b + 1))
    assert covered == list(range(1, count + 1))
    assert numbers(shown) == [n for a, b in shown.ranges for n in range(a, b + 1)]
    assert len(shown.ranges) <= 1 or len(shown.text) <= budget
