from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.review.paths import How, PathIndex, PathMatch, match_path, normalise, wanted_name
from checks.review.types import Definition, TreeFile

TREE = (
    "README.md",
    "examples/src/embeddings/openai.ts",
    "libs/openai/src/embeddings.ts",
    "libs/core/src/base.ts",
    "libs/core/src/tests/base.test.ts",
    "libs/other/src/base.ts",
    "myblog/models.py",
    "shop/models.py",
    "web/button.tsx",
    "web/button.test.js",
    "Makefile",
)


def index(*paths: str, links: tuple[str, ...] = (), submodules: tuple[str, ...] = ()) -> PathIndex:
    entries = [TreeFile(path=p, blob="") for p in paths or TREE]
    entries += [TreeFile(path=p, blob="", kind="link") for p in links]
    entries += [TreeFile(path=p, blob="", kind="submodule") for p in submodules]
    return PathIndex(entries)


def defined(**where: str) -> object:
    def look(name: str) -> list[Definition]:
        paths = where.get(name, "").split()
        return [Definition(name=name, kind="class", path=path, start_line=1, end_line=2) for path in paths]

    return look


def ask(path: str, of: PathIndex | None = None, **more: object) -> PathMatch:
    return match_path(of or index(), file_path=path, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "found", "how"),
    [
        ("README.md", "README.md", How.EXACT),
        ("./web/button.tsx", "web/button.tsx", How.NORMALISED),
        ("b/web/button.tsx", "web/button.tsx", How.NORMALISED),
        ("web\\button.tsx", "web/button.tsx", How.NORMALISED),
        ("`web/button.tsx`\n", "web/button.tsx", How.EXACT),
        ("D:\\agent\\1\\s\\web\\button.tsx", "web/button.tsx", How.NORMALISED),
        ("/home/ci/checkout/libs/core/src/base.ts", "libs/core/src/base.ts", How.NORMALISED),
        ("file:///build/web/button.tsx", "web/button.tsx", How.NORMALISED),
        ("web/../web/./button.tsx", "web/button.tsx", How.NORMALISED),
        ("web/button.js", "web/button.tsx", How.EXTENSION),
        ("web/button", "web/button.tsx", How.EXTENSION),
        ("/srv/web/button.jsx", "web/button.tsx", How.EXTENSION),
        ("langchain/src/embeddings/openai.ts", "examples/src/embeddings/openai.ts", How.SUFFIX),
        ("core/src/base.ts", "libs/core/src/base.ts", How.SUFFIX),
        ("button.test.js", "web/button.test.js", How.SUFFIX),
        ("readme.MD", "README.md", How.CASE),
    ],
)
def test_the_file_a_model_means_is_found(asked: str, found: str, how: How) -> None:
    match = ask(asked)
    assert (match.path, match.how) == (found, how)


def test_a_file_of_another_name_is_never_judged_in_place_of_the_one_asked() -> None:
    # `models.py` ends `myblog/models.py`, but `blog` is not `myblog`; `log.py` is the tail of a name only.
    of = index("myblog/models.py", "web/catalog.py")
    assert ask("blog/models.py", of).path == "myblog/models.py"
    assert ask("log.py", of).path is None
    assert ask("embedding.ts").path is None
    assert "no file" in ask("embedding.ts").note


def test_a_tie_is_refused_with_its_candidates_and_not_won_by_the_first_file() -> None:
    match = ask("models.py")
    assert (match.path, match.candidates, match.total) == (None, ("myblog/models.py", "shop/models.py"), 2)
    assert "2 files end in models.py" in match.note


def test_an_exact_path_wins_over_a_longer_path_with_the_same_end() -> None:
    of = index("blog/models.py", "old/blog/models.py")
    assert ask("blog/models.py", of).path == "blog/models.py"


def test_two_extensions_of_one_stem_are_a_tie() -> None:
    of = index("src/a.ts", "src/a.tsx", "other/a.js")
    assert ask("src/a.js", of).candidates == ("src/a.ts", "src/a.tsx")


@pytest.mark.parametrize(
    "asked", ["../web/button.tsx", "../../etc/passwd", "web/../../web/button.tsx", "a\0b/README.md"]
)
def test_a_path_that_leaves_the_repository_is_refused_even_where_its_end_exists(asked: str) -> None:
    match = ask(asked, class_name="Button", definitions=defined(Button="web/button.tsx"))
    assert (match.path, match.files) == (None, ())


@pytest.mark.parametrize(
    "asked", ["link.py", "vendor/lib/a.py", "a/vendor/lib/a.py", "/ci/vendor/lib/a.py", "deep/link.py"]
)
def test_a_link_or_submodule_is_never_followed(asked: str) -> None:
    of = index("src/a.py", "lib/a.py", links=("link.py",), submodules=("vendor",))
    assert ask(asked, of).path is None


def test_a_class_name_breaks_a_tie_when_one_of_the_tied_files_defines_it() -> None:
    match = ask("models.py", class_name="Order", definitions=defined(Order="shop/models.py web/button.tsx"))
    assert (match.path, match.how) == ("shop/models.py", How.DEFINITION)
    assert match.candidates == ("myblog/models.py", "shop/models.py")


def test_the_file_that_defines_the_class_is_shown_beside_a_usage_example() -> None:
    definitions = defined(OpenAIEmbeddings="libs/openai/src/embeddings.ts")
    match = ask("langchain/src/embeddings/openai.ts", class_name="OpenAIEmbeddings", definitions=definitions)
    assert match.files == ("examples/src/embeddings/openai.ts", "libs/openai/src/embeddings.ts")


def test_an_absent_file_is_replaced_by_the_only_definition_and_else_refused_with_all_of_them() -> None:
    one = ask("gone.py", class_name="pkg.Order.total()", definitions=defined(Order="shop/models.py"))
    assert (one.path, one.how) == ("shop/models.py", How.DEFINITION)
    two = ask("gone.py", class_name="Order", definitions=defined(Order="shop/models.py myblog/models.py"))
    assert (two.path, two.candidates) == (None, ("myblog/models.py", "shop/models.py"))


def test_a_folder_and_a_file_name_are_put_together() -> None:
    assert ask("libs/core/src", file_name="base.ts").path == "libs/core/src/base.ts"
    assert ask("", file_name="button.test.js").path == "web/button.test.js"
    assert ask("", file_name="").note == "no path was given"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Map<String, Order>", "Map"),
        ("pkg.mod.Order", "Order"),
        ("Order.total()", "Order"),
        ("do_it", "do_it"),
        ("", ""),
    ],
)
def test_the_class_is_looked_up_by_its_own_name(text: str, name: str) -> None:
    assert wanted_name(text) == name


SEGMENT = st.text("ab.", min_size=1, max_size=3).filter(lambda s: s not in {".", ".."})
PATHS = st.lists(st.lists(SEGMENT, min_size=1, max_size=4).map("/".join), min_size=1, max_size=12, unique=True)


@given(PATHS, st.text("ab./\\", max_size=12))
def test_whatever_is_asked_the_answer_is_an_entry_with_the_same_name_or_a_refusal(paths: list[str], asked: str) -> None:
    tree = [p for p in paths if not any(q.startswith(f"{p}/") for q in paths)]
    match = match_path(index(*tree), file_path=asked)
    assert match.path is None or match.path in tree
    if match.how is How.SUFFIX:
        parts = normalise(asked)
        assert parts is not None
        assert match.path is not None
        mine = [p for p in tree if p.split("/")[-1] == parts[0][-1]]
        assert match.path in mine


@given(PATHS, st.data())
def test_every_file_is_found_under_its_own_path_however_written(paths: list[str], data: st.DataObject) -> None:
    tree = [p for p in paths if not any(q.startswith(f"{p}/") for q in paths)]
    path = data.draw(st.sampled_from(tree))
    of = index(*tree)
    assert match_path(of, file_path=path).path == path
    assert match_path(of, file_path=f"./{path}").path == path


@given(PATHS, st.data())
def test_the_nearest_file_is_the_one_with_the_longest_common_end(paths: list[str], data: st.DataObject) -> None:
    tree = [p for p in paths if not any(q.startswith(f"{p}/") for q in paths)]
    asked = data.draw(st.lists(SEGMENT, min_size=1, max_size=4))
    length, hits = index(*tree).longest_suffix(asked)

    def run(path: str) -> int:
        parts = path.split("/")
        count = 0
        while count < min(len(parts), len(asked)) and parts[-1 - count] == asked[-1 - count]:
            count += 1
        return count

    best = max(map(run, tree))
    assert length == best
    assert hits == (sorted(p for p in tree if run(p) == best) if best else [])
