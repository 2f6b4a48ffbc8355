"""`verdicts export`: what comes out is what was recorded, once each, in every format; and it can be gone on with."""

from __future__ import annotations

import asyncio
import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyarrow import parquet
from typer.testing import CliRunner

from gateway.cli import app
from gateway.cli.export import COLUMNS
from gateway.errors import RequestError
from gateway.ledger.encode import encode_record
from gateway.ledger.store import ExchangeFilter, PostgresStore
from gateway.ledger.tables import month_of
from tests.gateway.ledger.records import rich_record

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("export")]

COUNT = 450  # several pages
START = 1_790_000_000.0


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Path:
    path = tmp_path_factory.mktemp("export") / "gateway.yaml"
    values = {
        "upstreams": {"main": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1"}},
        "routes": {"support": {"upstream": "main", "default": True}},
        "ledger": {"database_url": postgres_url},
    }
    path.write_text(yaml.safe_dump(values))
    return path


@pytest.fixture(scope="module", autouse=True)
def filled(config: Path, postgres_url: str) -> None:
    async def fill() -> None:
        store = PostgresStore(postgres_url)
        await store.ensure_partitions([month_of(START)])
        records = [
            rich_record(
                f"ex_{number:04}",
                created_at=START + number // 3,  # three share a moment
                route="support" if number % 2 else "other",
                query="=1+1" if number == 7 else "when does it ship?",
            )
            for number in range(COUNT)
        ]
        await store.write(b",".join(encode_record(record, hash_key=b"k", max_bytes=10**7) for record in records))
        await store.aclose()

    asyncio.run(fill())


def run(config: Path, *arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["verdicts", "export", "--config", str(config), *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def test_json_lines_hold_every_exchange_once_oldest_first_as_show_has_it(config: Path) -> None:
    lines = [json.loads(line) for line in run(config).stdout.splitlines()]
    assert [line["id"] for line in lines] == [f"ex_{number:04}" for number in range(COUNT)]
    shown = CliRunner().invoke(app, ["verdicts", "show", "ex_0007", "--config", str(config), "--json"])
    assert lines[7] == json.loads(shown.stdout)


def test_filters_are_those_of_the_list(config: Path) -> None:
    since = datetime.fromtimestamp(START + 100, UTC).isoformat()[:19]
    lines = [json.loads(line) for line in run(config, "--route", "support", "--since", since).stdout.splitlines()]
    assert [line["id"] for line in lines] == [f"ex_{number:04}" for number in range(300, COUNT) if number % 2]


def test_a_table_has_a_row_for_each_fact_and_runs_no_formula(config: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    run(config, "--format", "csv", "--output", str(path))
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(COLUMNS)
    assert len(rows) == 2 * COUNT
    first, second = rows[14], rows[15]
    assert (first["exchange_id"], first["fact"], second["fact"]) == ("ex_0007", "0", "1")
    assert (first["fact_label"], first["text"], first["sources"]) == ("false", "It ships on Sundays.", "1 1")
    assert (second["fact_status"], second["fact_reason"]) == ("not_checked", "no_evidence")
    assert first["query"] == "'=1+1"


def test_parquet_has_the_same_rows_with_types(config: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    run(config, "--format", "parquet", "--output", str(path))
    table = parquet.read_table(path)
    assert table.column_names == list(COLUMNS)
    rows = table.to_pylist()
    assert len(rows) == 2 * COUNT
    assert rows[14]["created_at"] == datetime.fromtimestamp(START + 2, UTC)
    assert rows[14]["fact_score"] == pytest.approx(0.8)
    assert rows[14]["query"] == "=1+1"
    assert "--output" in run(config, "--format", "parquet", code=2).output


def test_an_export_that_broke_off_goes_on_where_it_was(config: Path, tmp_path: Path, postgres_url: str) -> None:
    async def first_page() -> tuple[list[dict[str, Any]], str | None]:
        store = PostgresStore(postgres_url)
        page = await store.whole_exchanges(ExchangeFilter(), limit=100)
        await store.aclose()
        return page.items, page.cursor

    items, cursor = asyncio.run(first_page())
    assert cursor is not None
    path = tmp_path / "out.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    run(config, "--output", str(path), "--cursor", cursor)
    ids = [json.loads(line)["id"] for line in path.read_text().splitlines()]
    assert ids == [f"ex_{number:04}" for number in range(COUNT)]
    # What is there already is never written over.
    assert "exists" in run(config, "--output", str(path), code=2).output
    with pytest.raises(RequestError, match="cursor"):
        run(config, "--cursor", "nonsense")


def test_without_texts_no_word_of_a_conversation_leaves(config: Path) -> None:
    for kind in ("jsonl", "csv"):
        text = run(config, "--no-texts", "--format", kind).stdout
        assert "not_supported" in text or "no_evidence" in text
        for word in ("Sundays", "Mondays", "It is blue", "when does it ship"):
            assert word not in text
