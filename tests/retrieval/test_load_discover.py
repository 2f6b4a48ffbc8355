import os
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from retrieval.errors import LoadError
from retrieval.load import default_loaders, discover, installed_loaders, loader_for, merge_loaders
from retrieval.types import Document, Loader


class UpperLoader:
    """A loader as another package would bring it."""

    suffixes: tuple[str, ...] = (".txt", ".upper")

    def load(self, path: Path, *, root: Path) -> Iterable[Document]:
        return []


BROKEN = 7


def tree(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return root


def names(*paths: Path, loaders: tuple[Loader, ...] | None = None) -> list[str]:
    return [str(f.path.relative_to(f.root)) for f in discover(paths, loaders or default_loaders())]


def test_files_are_found_in_a_stable_order_and_other_peoples_code_is_left_out(tmp_path: Path) -> None:
    tree(tmp_path, "b.md", "a.txt", "sub/c.html", "sub/d.bin", ".git/e.md", ".hidden.md", "README", "a.md~")
    tree(tmp_path, "node_modules/f.md", "sub/vendor/g.py", "sub/__pycache__/h.py", "package-lock.json")
    assert names(tmp_path) == ["README", "a.txt", "b.md", "sub/c.html"]


def test_a_link_never_brings_a_file_from_outside_into_the_collection(tmp_path: Path) -> None:
    outside = tree(tmp_path / "outside", "secret.txt")
    root = tree(tmp_path / "root", "a.txt")
    (root / "leak.txt").symlink_to(outside / "secret.txt")
    (root / "leaks").symlink_to(outside)
    (root / "dangling.txt").symlink_to(root / "nowhere.txt")
    (root / "loop").symlink_to(root)
    assert names(root) == ["a.txt"]


def test_a_mounted_configuration_of_links_is_read_once(tmp_path: Path) -> None:
    tree(tmp_path, "..2026_01/a.md")
    (tmp_path / "..data").symlink_to("..2026_01")
    (tmp_path / "a.md").symlink_to("..data/a.md")
    assert names(tmp_path) == ["a.md"]


def test_a_pipe_or_socket_in_a_folder_does_not_block_an_ingest(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt")
    os.mkfifo(tmp_path / "b.txt")
    assert names(tmp_path) == ["a.txt"]


def test_a_file_under_two_given_paths_is_read_once(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt", "sub/b.txt")
    found = list(discover([tmp_path, tmp_path / "sub", tmp_path / "a.txt"], default_loaders()))
    assert [f.path.name for f in found] == ["a.txt", "b.txt"]


def test_a_file_given_by_name_has_its_folder_as_root(tmp_path: Path) -> None:
    tree(tmp_path, "vendor/a.txt")
    (found,) = discover([tmp_path / "vendor" / "a.txt"], default_loaders())
    assert (found.root, found.path.name) == (tmp_path / "vendor", "a.txt")


def test_a_path_that_vanished_is_an_error_and_not_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="gone") as caught:
        names(tmp_path / "gone")
    assert caught.value.hint


def test_a_file_given_by_name_that_nothing_reads_is_an_error(tmp_path: Path) -> None:
    tree(tmp_path, "a.docx")
    with pytest.raises(LoadError, match=r"a\.docx") as caught:
        names(tmp_path / "a.docx")
    assert ".md" in caught.value.hint


def test_every_shipped_suffix_has_one_loader_only() -> None:
    suffixes = [suffix for loader in default_loaders() for suffix in loader.suffixes]
    assert len(suffixes) == len(set(suffixes))
    assert all(suffix == suffix.lower() and suffix.startswith(".") for suffix in suffixes)


def test_an_upper_case_suffix_is_read_too(tmp_path: Path) -> None:
    tree(tmp_path, "A.PDF", "B.Md")
    assert names(tmp_path) == ["A.PDF", "B.Md"]


def test_a_loader_of_another_package_is_used_and_wins() -> None:
    entry = EntryPoint("upper", f"{__name__}:UpperLoader", "grounding_gateway.loaders")
    loaders = merge_loaders([entry])
    assert isinstance(loader_for(Path("x.upper"), loaders), UpperLoader)
    assert isinstance(loader_for(Path("x.txt"), loaders), UpperLoader)
    assert not isinstance(loader_for(Path("x.md"), loaders), UpperLoader)


@pytest.mark.parametrize("value", ["no_such_module:Loader", f"{__name__}:BROKEN", f"{__name__}:tree"])
def test_a_broken_loader_of_another_package_is_named(value: str) -> None:
    with pytest.raises(LoadError, match="'odd'") as caught:
        merge_loaders([EntryPoint("odd", value, "grounding_gateway.loaders")])
    assert caught.value.hint


def test_the_installed_loaders_hold_the_shipped_ones() -> None:
    assert {type(loader) for loader in default_loaders()} <= {type(loader) for loader in installed_loaders()}
