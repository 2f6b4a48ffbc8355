"""`grounding-gateway collection`: what lies in the collections, searches of them, and a proof that they are whole.

A search reads the collection as a request does: with the groups and filters given, and nothing else in sight.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.commands import AsJson, ConfigFile, located
from gateway.cli.output import FAILED, USAGE, emit, fail, note

if TYPE_CHECKING:
    from gateway.config.model import GatewayConfig
    from retrieval.collection import Collection
    from retrieval.types import Encoder

Name = Annotated[str, typer.Argument(help="The collection.")]
Names = Annotated[list[str] | None, typer.Argument(help="Names; default: all.")]
_LONGEST_TEXT = 160

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look into collections, search and verify them.")


@app.callback()
def _group() -> None:
    pass


@app.command("list")
def list_(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """How much each collection holds."""
    rows: list[dict[str, Any]] = []
    for name, collection in _opened(config, None):
        stats = collection.stats()
        rows.append(
            {
                "collection": name,
                **asdict(stats.counts),
                "index": stats.index.kind,
                "words": stats.lexical,
                "megabytes": round(stats.bytes_on_disk / 1e6, 1),
                "generation": stats.generation,
            }
        )
    columns = ("collection", "files", "documents", "passages", "index", "words", "megabytes", "generation")
    emit(rows, as_json=as_json, table=(columns, [[row[column] for column in columns] for row in rows]))


@app.command("documents")
def documents(name: Name, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """The documents of a collection, whoever may see them."""
    found = [
        {**asdict(document), "metadata": dict(document.metadata)}
        for _, collection in _opened(config, [name])
        for document in collection.documents()
    ]
    columns = ("id", "title", "passages", "characters", "source")
    emit(found, as_json=as_json, table=(columns, [[row[column] for column in columns] for row in found]))


@app.command("search")
def search(
    name: Name,
    query: Annotated[str, typer.Argument(help="The question.")],
    config: ConfigFile = None,
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="Passages.")] = 8,
    group: Annotated[list[str] | None, typer.Option("--group", help="A group of the caller.")] = None,
    where: Annotated[list[str] | None, typer.Option("--filter", help="name=value, of the documents.")] = None,
    as_json: AsJson = False,
) -> None:
    """The passages found for a question, best first. Exit code 1 when there is none."""
    from retrieval.hybrid import Question
    from retrieval.types import Scope

    scope = Scope(filters=_filters(where or ()), groups=frozenset(group or ()))
    loaded = _loaded(config)
    encoders: dict[Any, Encoder] = {}
    with _open(loaded, _known(loaded, [name])[0], encoders) as collection:
        (encoder,) = encoders.values()
        found = collection.find(Question(text=query, vector=encoder.encode_queries([query])[0]), k, scope)
    if found.detail:
        note(found.detail)
    rows = [
        {"rank": rank, "score": round(hit.score, 4), **asdict(hit.passage)} for rank, hit in enumerate(found.hits, 1)
    ]
    for row in rows:
        row["metadata"] = dict(row["metadata"])
    columns = ("rank", "score", "document_id", "text")
    shown = [[row["rank"], row["score"], row["document_id"], _short(row["text"])] for row in rows]
    emit(rows, as_json=as_json, table=(columns, shown))
    if not rows:
        raise SystemExit(FAILED)


@app.command("verify")
def verify(names: Names = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Read everything back: nothing lost, and nothing deleted that a search could still find. Exit code 1 if not.

    Compares the passages with the vectors and the words, and checksums with what they were made for.
    """
    found = {name: list(collection.verify()) for name, collection in _opened(config, names)}
    lines = [f"{name}: {problem}" for name, problems in found.items() for problem in (problems or ["whole"])]
    emit(found, as_json=as_json, text="\n".join(lines))
    if any(found.values()):
        note("hint: `grounding-gateway ingest --rebuild NAME` makes a damaged collection anew from its files")
        raise SystemExit(FAILED)


def _opened(config: Path | None, names: Sequence[str] | None) -> Iterator[tuple[str, Collection]]:
    """Each collection, open while it is looked at."""
    loaded = _loaded(config)
    encoders: dict[Any, Encoder] = {}
    for name in _known(loaded, names):
        with _open(loaded, name, encoders) as collection:
            yield name, collection


def _loaded(config: Path | None) -> GatewayConfig:
    from gateway.config.load import load

    return load(located(config), os.environ)


def _open(loaded: GatewayConfig, name: str, encoders: dict[Any, Encoder]) -> Collection:
    from gateway.app.collections import open_collection
    from gateway.app.encoders import build_encoder

    section = loaded.collections[name]
    if section.encoder not in encoders:
        encoders[section.encoder] = build_encoder(section.encoder)
    # A damaged collection is opened too: to tell what is wrong with it is what it is opened for.
    return open_collection(loaded, name, encoders[section.encoder], for_rebuild=True)


def _known(loaded: GatewayConfig, names: Sequence[str] | None) -> Sequence[str]:
    from gateway.config.problems import listed, suggestion

    for name in names or ():
        if name not in loaded.collections:
            known = listed(loaded.collections) or "none"
            fail(f"there is no collection '{name}'{suggestion(name, loaded.collections)}", f"known: {known}", USAGE)
    return names or list(loaded.collections)


def _filters(given: Sequence[str]) -> Mapping[str, str]:
    found = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            fail(f"--filter {text!r} is not name=value", code=USAGE)
        found[name] = value
    return found


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_TEXT else f"{line[: _LONGEST_TEXT - 1]}…"
