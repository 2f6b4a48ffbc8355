from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.review.diffs import find_diffs
from checks.review.request_files import MOST_TEXT, RequestSnapshot, read_messages
from checks.review.types import ChangeKind, Side, Snapshot

DIFF = """\
diff --git a/x/old.py b/x/new.py
similarity index 90%
rename from x/old.py
rename to x/new.py
index 1234567..89abcde 100644
--- a/x/old.py
+++ b/x/new.py
@@ -1,3 +1,4 @@ def f
 a
-b
+c
+d
 e
@@ -10,2 +11,2 @@
-p
+q
 r
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
index 1234567..0000000
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
"""


def read(*texts: str) -> RequestSnapshot:
    found = read_messages([("user", text) for text in texts])
    assert found is not None
    assert isinstance(found, Snapshot)
    return found


def text_of(here: RequestSnapshot, path: str, side: Side = Side.RIGHT) -> str:
    file = here.read(path, side)
    assert file is not None
    return file.text


def test_both_sides_of_a_diff_are_known_with_their_line_numbers() -> None:
    here = read(f"Please look:\n\n```diff\n{DIFF}```\n")
    new, old = here.read("x/new.py"), here.read("x/old.py", Side.LEFT)
    assert new is not None
    assert old is not None
    assert (new.known, new.text.split("\n")[10:]) == (((1, 4), (11, 12)), ["q", "r"])
    assert (old.known, old.text.split("\n")[:3]) == (((1, 3), (10, 11)), ["a", "b", "e"])
    assert text_of(here, "gone.txt", Side.LEFT) == "bye"
    assert here.read("gone.txt") is None
    assert [(c.kind, c.old_path, c.path) for c in here.changes()] == [
        (ChangeKind.RENAMED, "x/old.py", "x/new.py"),
        (ChangeKind.DELETED, "gone.txt", "gone.txt"),
    ]


def test_a_hunk_cut_short_keeps_what_is_there_and_invents_nothing() -> None:
    (diff,) = find_diffs("--- a/a.py\n+++ b/a.py\n@@ -10,90 +10,90 @@\n one\n-two\n\n+three\n\nThat is all I have.\n")
    (hunk,) = diff.hunks
    assert (hunk.new, hunk.old) == (("one", "", "three"), ("one", "two", ""))


def test_a_hunk_after_prose_is_not_counted_to_the_file_before_it() -> None:
    first, second = find_diffs("--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\nAnd elsewhere:\n@@ -3 +3 @@\n-p\n+q\n")
    assert (first.path, len(first.hunks), second.path) == ("a.py", 1, "")


@pytest.mark.parametrize(
    ("text", "path", "content"),
    [
        ("```python src/a.py\nx = 1\n```", "src/a.py", "x = 1"),
        ('```ts title="src/a.ts"\nx\n```', "src/a.ts", "x"),
        ("```go:pkg/a.go\nx\n```", "pkg/a.go", "x"),
        ("### `src/a.py`\n\n```python\nx\n```", "src/a.py", "x"),
        ("**File: src/a.py**\n```\nx\n```", "src/a.py", "x"),
        ("1. src/a.py (lines 1-2)\n```\nx\n```", "src/a.py", "x"),
        ("```python\n# src/a.py\nx\n```", "src/a.py", "# src/a.py\nx"),
        ('<file path="src/a.py">\nx\n</file>', "src/a.py", "x"),
        ("File: Makefile\n```\nall:\n```", "Makefile", "all:"),
        ("src/a.md:\n````md\n```\ninner\n```\n````", "src/a.md", "```\ninner\n```"),
        ("src/a.py\n```python\n7 | x\n8 | y\n```", "src/a.py", "x\ny"),
        ("src/a.py\n```python\nnever closed", "src/a.py", "never closed"),
    ],
)
def test_files_are_found_in_the_ways_prompts_give_them(text: str, path: str, content: str) -> None:
    here = read(text)
    file = here.read(path)
    assert file is not None
    assert (file.text, file.partial, here.partial) == (content, True, True)


def test_line_numbers_of_a_numbered_excerpt_are_kept() -> None:
    file = read("src/a.py\n```python\n7 | x\n8 | y\n```").read("src/a.py")
    assert file is not None
    assert (file.first_line, file.known) == (7, ((7, 8),))


@pytest.mark.parametrize(
    "text",
    [
        "Hello",
        "```bash\nrm a.py\n```",
        "```\nno name\n```",
        "../../etc/passwd.py\n```\nx\n```",
        "Some prose.\n```python\nx\n```",
    ],
)
def test_code_without_a_name_or_with_one_that_leaves_the_tree_is_no_file(text: str) -> None:
    assert read_messages([("user", text)]) is None


def test_the_last_version_of_a_file_counts_and_the_reader_is_told() -> None:
    here = read("```python a.py\nx = 1\n```", "```python a.py\nx = 2\n```")
    assert text_of(here, "a.py") == "x = 2"
    assert here.notes == ("a.py was given more than once: the last one counts",)


def test_definitions_and_names_of_the_shown_code_are_found_at_their_real_lines() -> None:
    here = read("a.py\n```python\n41| class Order:\n42|     pass\n```")
    (definition,) = here.definitions("Order")
    assert (definition.start_line, definition.end_line) == (41, 42)
    assert (here.mentions("Order"), here.mentions("Orde")) == (True, False)


def test_a_hostile_hunk_header_cannot_exhaust_memory() -> None:
    here = read("--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n@@ -99999999 +99999999 @@\n-x\n+y\n")
    assert text_of(here, "a.py") == "y"
    assert "the gap before them is too large" in here.notes[0]


def test_endless_conversations_are_read_from_the_newest_message() -> None:
    here = read("```python old.py\nx\n```", "y" * MOST_TEXT, "```python a.py\nx\n```")
    assert [file.path for file in here.tree()] == ["a.py"]
    assert "too long" in here.notes[0]


def test_hunks_with_numbered_lines_as_some_bots_send_them_are_read_with_these_numbers() -> None:
    prompt = (
        "The diff:\n======\n## File: 'src/a.py'\n\n@@ -10,3 +10,3 @@ def load\n__new hunk__\n10  kept\n11 +    added\n"
        "12  \n__old hunk__\n kept\n-    removed\n \n\n@@ -40,1 +40,2 @@\n__new hunk__\n40  x\n41 +y\n\n"
        "## File: 'b.py'\n@@ -1,1 +1,1 @@\n__new hunk__\n1 +z\n======\nNow review.\n"
    )
    here = read(prompt)
    new, old = here.read("src/a.py"), here.read("src/a.py", Side.LEFT)
    assert new is not None
    assert old is not None
    assert (new.first_line, new.known, new.text.split("\n")[:3]) == (
        10,
        ((10, 12), (40, 41)),
        ["kept", "    added", ""],
    )
    assert (old.first_line, old.text.split("\n")[:2]) == (10, ["kept", "    removed"])
    assert text_of(here, "b.py") == "z"
    assert {c.path for c in here.changes()} == {"src/a.py", "b.py"}


LINE = st.sampled_from(
    [
        *("diff --git a/a.py b/a.py", "--- a/a.py", "+++ b/a.py", "@@ -1,2 +1,2 @@", "@@ -5 +5,9 @@", " ctx", "-old"),
        *("+new", "", "```", "````diff", "```python a.py", "prose", "index 123456..abcdef 100644", "rename from x"),
        *("+++ /dev/null", "\\ No newline at end of file", "<file path='b.py'>", "</file>", "...", "3 | x", "\t"),
        *("## File: 'a.py'", "__new hunk__", "__old hunk__", "3 +new", "4  ctx"),
    ]
)


@given(st.lists(LINE, max_size=40))
def test_no_text_makes_reading_fail_and_every_known_line_was_in_it(lines: list[str]) -> None:
    text = "\n".join(lines)
    here = read_messages([("user", text)])
    for diff in find_diffs(text):
        for hunk in diff.hunks:
            assert all(any(line in given for given in lines) for line in (*hunk.new, *hunk.old))
    if here is not None:
        for file in here.tree():
            source = here.read(file.path)
            assert source is not None
            count = len(source.text.split("\n"))
            assert all(source.first_line <= a <= b < source.first_line + count for a, b in source.known)
