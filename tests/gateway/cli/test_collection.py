"""Looking into collections from the shell: what they hold, what a search finds, and the proof that nothing is left."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from gateway.cli import app

FALCON, HERON = "The Falcon weighs three kilograms.", "The Heron is a folding bicycle for two."


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A collection of two documents, one of which is for staff only."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "falcon.md").write_text(f"# Falcon\n\n{FALCON}\n")
    row = {"id": "heron", "title": "Heron", "text": HERON, "groups": ["staff"], "kind": "bike"}
    (docs / "heron.jsonl").write_text(json.dumps(row) + "\n")
    path = tmp_path / "gateway.yaml"
    section = {"paths": ["docs"], "encoder": {"kind": "hash"}}
    path.write_text(
        yaml.safe_dump(
            {
                "data_dir": "data",
                "upstreams": {"quotes": {"kind": "extractive"}},
                "collections": {"docs": section},
                "routes": {"r": {"upstream": "quotes", "retrieval": {"collections": ["docs"]}}},
            }
        )
    )
    assert run("ingest", path)[0] == 0
    return path


def run(*arguments: str | Path) -> tuple[int, str]:
    """Exit code and standard output; the last argument is the configuration."""
    *words, path = map(str, arguments)
    result = CliRunner().invoke(app, [*words, "--config", path])
    return result.exit_code, result.stdout


def test_an_operator_sees_what_a_collection_holds(config: Path) -> None:
    code, output = run("collection", "list", "--json", config)
    (row,) = json.loads(output)
    assert code == 0
    assert (row["collection"], row["documents"], row["passages"], row["words"]) == ("docs", 2, 2, 2)
    code, output = run("collection", "documents", "docs", "--json", config)
    assert {document["title"] for document in json.loads(output)} == {"Falcon", "Heron"}


def test_a_search_sees_what_its_groups_see_and_nothing_else(config: Path) -> None:
    code, output = run("collection", "search", "docs", "folding bicycle for two", "--json", config)
    assert HERON not in output
    code, output = run("collection", "search", "docs", "folding bicycle for two", "--group", "staff", "--json", config)
    assert code == 0
    assert json.loads(output)[0]["text"] == HERON
    only = ("--group", "staff", "--filter", "kind=bike")
    assert [
        hit["text"] for hit in json.loads(run("collection", "search", "docs", "weighs", *only, "--json", config)[1])
    ] == [HERON]
    assert run("collection", "search", "docs", "weighs", "--filter", "kind=plane", config)[0] == 1
    assert run("collection", "search", "docs", "weighs", "--filter", "kind", config)[0] == 2


def test_a_deleted_document_that_a_search_could_still_reach_is_found_out(config: Path) -> None:
    code, output = run("collection", "verify", config)
    assert (code, output) == (0, "docs: whole\n")
    (config.parent / "docs" / "falcon.md").unlink()
    assert run("ingest", config)[0] == 0
    assert run("collection", "verify", config) == (0, "docs: whole\n")
    (store,) = (config.parent / "data" / "collections" / "docs").glob("*.sqlite*")
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DELETE FROM passage")  # behind the collection's back
    code, output = run("collection", "verify", "--json", config)
    assert code == 1
    problems = json.loads(output)["docs"]
    assert any("vectors of passages that do not exist" in problem for problem in problems)


def test_a_name_that_is_not_there_is_told_with_the_known_ones(config: Path) -> None:
    result = CliRunner().invoke(app, ["collection", "verify", "dosc", "--config", str(config)])
    assert result.exit_code == 2
    assert "did you mean `docs`?" in result.stderr
