"""A small library on disk, an encoder that counts, and openers, for the collection tests."""

from collections.abc import Sequence
from pathlib import Path

from retrieval.collection import Collection
from retrieval.encode.hash import HashEncoder
from retrieval.index.base import IndexSettings
from retrieval.types import Hit, Scope
from retrieval.writer import CollectionSettings

TOPICS = (
    "harbour pilots guide tankers through the narrow strait at dawn",
    "violin makers age spruce boards for twenty winters before carving",
    "beekeepers smoke the hive gently and lift the brood frames",
    "glacier meltwater feeds the valley turbines through a steel pipe",
    "printers mixed lampblack with linseed oil for the first books",
    "falconers weigh their birds each morning on a brass scale",
)
SETTINGS = CollectionSettings(lock_wait_s=0.0)


class CountingEncoder(HashEncoder):
    """The shipped hash encoder; remembers every passage text it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def encode_passages(self, texts: Sequence[str]):  # type: ignore[no-untyped-def]
        self.seen += texts
        return super().encode_passages(texts)


def write_library(directory: Path, topics: Sequence[str] = TOPICS, *, first: int = 0) -> Path:
    """One text file per topic, `0.txt` onwards."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, topic in enumerate(topics, start=first):
        (directory / f"{number}.txt").write_text(f"{topic}.\n")
    return directory


def write_long(path: Path, paragraphs: Sequence[str]) -> None:
    """A file long enough for several passages: each paragraph is about sixty words."""
    path.write_text("\n\n".join(f"{text} " + " ".join([f"{text}."] * 8) for text in paragraphs) + "\n")


def ask(collection: Collection, query: str, k: int = 5, scope: Scope | None = None) -> list[Hit]:
    """The hits of one question."""
    return collection.search(CountingEncoder().encode_queries([query]), k, scope or Scope())[0]


def texts(hits: Sequence[Hit]) -> str:
    return "\n".join(hit.passage.text for hit in hits)


def settings_with(index: IndexSettings) -> CollectionSettings:
    return CollectionSettings(lock_wait_s=0.0, index=index)
