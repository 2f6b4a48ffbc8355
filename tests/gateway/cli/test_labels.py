"""Labels from the shell: given, imported, counted, exported for training; verdicts replayed and sampled with them."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace
from typer.testing import CliRunner

from checks.errors import LabelledDataError
from checks.evaluate.labelled import read_sets
from checks.types import FactLabel
from gateway.cli import app
from gateway.ledger.encode import encode_record
from gateway.ledger.record import CheckRecord, EvidenceRecord, ExchangeRecord, FactRecord, SourceRecord
from gateway.ledger.store import PostgresStore
from gateway.ledger.tables import month_of
from tests.gateway.ledger.records import plain_record

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("labels")]

AT = 1_790_000_000.0
CHECK = {"kind": "facts", "collections": ["docs"], "aggregation": {"kind": "strict"}}


@pytest.fixture
def config(tmp_path: Path, fresh_postgres_url: str) -> Path:
    path = tmp_path / "gateway.yaml"
    (tmp_path / "docs").mkdir()
    values = {
        "upstreams": {"main": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1"}},
        "collections": {"docs": {"paths": ["docs"]}},
        "routes": {"support": {"upstream": "main", "default": True, "check": CHECK}, "plain": {"upstream": "main"}},
        "ledger": {"database_url": fresh_postgres_url},
    }
    path.write_text(yaml.safe_dump(values))

    async def fill() -> None:
        store = PostgresStore(fresh_postgres_url)
        await store.ensure_partitions([month_of(AT)])
        records = [answer(f"ex_{number}", 0.9 if number else 0.55) for number in range(6)]
        await store.write(b",".join(encode_record(each, hash_key=b"k", max_bytes=1 << 20) for each in records))
        await store.aclose()

    asyncio.run(fill())
    return path


def answer(exchange_id: str, support: float) -> ExchangeRecord:
    """Two facts: one that passage 1 supports as much as said, one that passage 2 refutes with 0.7."""
    supported = [support, 0, 0, 0, 1 - support, 0, 0]
    refuted = [0.2, 0, 0, 0, 0.1, 0.7, 0]
    facts = [
        FactRecord(0, "It ships on Mondays.", 0, 20, "passed", "true", score=1 - support, rule="supported"),
        FactRecord(1, "It is blue.", 21, 32, "failed", "false", score=0.8, rule="refuted"),
    ]
    facts[0] = replace(facts[0], evidence=[EvidenceRecord(1, "true", support, supported, 0.9)])
    facts[1] = replace(facts[1], evidence=[EvidenceRecord(2, "false", 0.7, refuted, 0.9)])
    sources = [
        SourceRecord(1, "d", "d#1", "Shipping", "https://docs/ship", 0.8, 0, 9, "ab", "Parcels ship on Mondays."),
        SourceRecord(2, "d", "d#2", "Colours", "https://docs/colour", 0.5, 9, 20, "cd", "It is red."),
    ]
    return plain_record(
        exchange_id,
        created_at=AT + int(exchange_id[3:]),
        query="when does it ship?",
        answer={"0": "It ships on Mondays. It is blue."},
        check_status="failed",
        sources=sources,
        checks=[CheckRecord(0, "fact_check", "failed", "block", rule="any_fact_failed", facts=facts)],
    )


def run(config: Path, *arguments: str, code: int = 0, given: str | None = None) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--config", str(config)], input=given)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def data(config: Path, *arguments: str) -> Any:
    return json.loads(run(config, *arguments, "--json").stdout)


def label(config: Path, exchange: str, word: str, *more: str) -> None:
    run(config, "label", "set", exchange, word, *more)


def test_labels_come_back_as_the_evaluation_and_the_training_read_them(config: Path, tmp_path: Path) -> None:
    label(config, "ex_0", "true", "--fact", "0", "--by", "ann", "--source", "d#1")
    label(config, "ex_0", "false", "--fact", "1", "--by", "ann")
    label(config, "ex_0", "false", "--fact", "1", "--by", "bob", "--source", "[2]", "--comment", "red")
    label(config, "ex_0", "false", "--by", "ann")
    label(config, "ex_1", "true", "--fact", "0", "--by", "ann")
    label(config, "ex_1", "false", "--fact", "0", "--by", "bob")  # divided
    folder = tmp_path / "out"
    result = run(config, "label", "export", str(folder))
    assert "2 facts and 1 answers" in result.stderr
    assert "divided: 1" in result.stderr
    (found,) = read_sets(folder)
    assert [(fact.fact, fact.label, fact.query) for fact in found.facts] == [
        ("It ships on Mondays.", FactLabel.TRUE, "when does it ship?"),
        ("It is blue.", FactLabel.FALSE, "when does it ship?"),
    ]
    assert [(text.id, text.stance) for fact in found.facts for text in fact.evidence] == [
        ("d#1", "supports"),
        ("d#2", "refutes"),
    ]
    assert [each.right for each in found.answers] == [False]
    assert "exists" in run(config, "label", "export", str(folder), code=2).output


def test_a_file_of_labels_is_imported_once_and_bad_lines_are_named(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    rows: list[Any] = [
        {"exchange": "ex_0", "fact": 0, "label": "true", "labeller": "ann"},
        {"exchange": "ex_0", "fact": 9, "label": "true"},
        {"exchange": "ex_0", "fact": 0, "label": "true", "mood": "good"},
        {"exchange": "ex_1", "fact": 0, "label": "false"},
    ]
    file.write_text("\n".join([json.dumps(row) for row in rows]) + "\n\nnonsense\n")
    first = run(config, "label", "import", str(file), "--by", "bob", code=1)
    assert "2 new, 0 were there, 3 refused" in first.output
    for number, word in ((2, "no fact 9"), (3, "mood"), (6, "malformed")):
        assert any(f"{file}:{number}: " in line and word in line for line in first.stderr.splitlines()), first.stderr
    again = run(config, "label", "import", "-", "--by", "bob", given=json.dumps(rows[0]))
    assert "0 new, 1 were there, 0 refused" in again.output
    shown = data(config, "verdicts", "show", "ex_1")
    assert [(each["labeller"], each["label"]) for each in shown["labels"]] == [("bob", "false")]


def test_agreement_is_told_for_facts_and_answers_apart(config: Path) -> None:
    assert "no labels" in run(config, "label", "agreement", code=1).output
    for number in range(4):
        label(config, f"ex_{number}", "true", "--fact", "0", "--by", "ann")
        label(config, f"ex_{number}", "true" if number else "half_true", "--fact", "0", "--by", "bob")
    label(config, "ex_0", "false", "--by", "ann")
    answers, facts = data(config, "label", "agreement")
    assert (answers["of"], answers["labels"], answers["alpha"]) == ("answers", 1, None)
    assert (facts["of"], facts["labellers"], facts["by_two_or_more"], facts["pairs_that_agree"]) == ("facts", 2, 4, 3)
    assert facts["confused"] == [["half_true", "true", 1]]
    assert (facts["verdict_same_label"], facts["verdict_compared"]) == (7, 8)
    assert "half_true / true: 1" in run(config, "label", "agreement").stdout


def test_a_replay_says_what_another_threshold_would_have_done_before_anybody_flips_it(config: Path) -> None:
    same = data(config, "verdicts", "rescore", "--route", "support")
    assert same["answers"] == [{"was": "failed", "would_be": "failed", "count": 6}]
    assert same["changed"] == []
    label(config, "ex_2", "true", "--fact", "1", "--by", "ann")
    lenient = data(
        config, "verdicts", "rescore", "-r", "support", "--threshold", "0.75", "--fails", "not_supported=pass"
    )
    assert lenient["answers"] == [{"was": "failed", "would_be": "passed", "count": 6}]
    assert lenient["labels"] == {"facts": 1, "right_before": 0, "right_after": 1}
    assert {each["exchange"] for each in lenient["changed"]} == {f"ex_{number}" for number in range(6)}
    graded = data(
        config, "verdicts", "rescore", "-r", "support", "--aggregation", "graded", "--support-threshold", "0.6"
    )
    assert {(move["was"], move["would_be"]): move["count"] for move in graded["facts"]} == {
        ("failed", "failed"): 6,
        ("passed", "not_checked"): 1,
        ("passed", "passed"): 5,
    }
    shown = run(config, "verdicts", "rescore", "-r", "support", "--threshold", "0.75", "--fails", "not_supported=pass")
    assert "answers\tfailed\tpassed\t6" in shown.stdout
    assert "did you mean `support`" in run(config, "verdicts", "rescore", "-r", "suport", code=2).output
    assert "checks no facts" in run(config, "verdicts", "rescore", "-r", "plain", code=2).output
    assert "LABEL=fail" in run(config, "verdicts", "rescore", "-r", "support", "--fails", "maybe", code=2).output


def test_a_labelled_sample_gives_the_verdicts_error_rate_with_an_interval(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "sample.jsonl"
    run(config, "verdicts", "sample", "-r", "support", "--count", "6", "--seed", "3", "-o", str(file))
    drawn = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(row["status"], row["stratum_size"]) for row in drawn] == [("failed", 6)] * 3 + [("passed", 6)] * 3
    again = run(config, "verdicts", "sample", "-r", "support", "--count", "6", "--seed", "3").stdout
    assert again == file.read_text()
    assert "none of these facts" in run(config, "verdicts", "error-rate", str(file), code=1).output
    for at, row in enumerate(drawn):
        word = "true" if at in (0, 3, 4) else "false"  # one failed verdict and one passed one are wrong
        label(config, row["exchange"], word, "--fact", str(row["fact"]), "--by", "ann")
    found = data(config, "verdicts", "error-rate", str(file))
    rows = {(row["status"], row["label"]): row for row in found["strata"]}
    assert rows["all", ""]["error_rate"] == pytest.approx(1 / 3)
    assert 0 < rows["all", ""]["low"] < 1 / 3 < rows["all", ""]["high"] < 1
    assert (rows["failed", "(all)"]["wrong"], rows["failed", "(all)"]["labelled"]) == (1, 3)
    assert "33.3%" in run(config, "verdicts", "error-rate", str(file)).stdout
    file.write_text("{}\n")
    with pytest.raises(LabelledDataError, match=r"sample\.jsonl:1: .*`exchange`"):
        run(config, "verdicts", "error-rate", str(file))


def test_in_a_terminal_one_keystroke_labels_a_fact_and_the_verdict_does_not_lead(config: Path) -> None:
    assert "needs a terminal" in run(config, "label", code=2).output
    terminal, ours = pty.openpty()
    command = [sys.executable, "-m", "gateway", "label", "--config", str(config), "--by", "ann", "--limit", "3"]
    environment = {**os.environ, "TERM": "dumb", "COLUMNS": "120"}
    process = subprocess.Popen(command, stdin=ours, stdout=ours, stderr=ours, env=environment, start_new_session=True)
    try:
        os.close(ours)
        screen = Screen(terminal)
        first = screen.until("q quit > ")
        # The fact nearest to 0.5 comes first.
        assert "ex_0" in first
        assert ">>>It ships on Mondays.<<<" in first
        assert "Parcels ship on Mondays" in first
        assert "supported" not in first.replace("not_supported", "")
        screen.press("v")
        assert "verdict: passed, true; rule: supported" in screen.until("q quit > ")
        screen.press("s")
        screen.until("source: ")
        screen.press("d#1\r")
        screen.until("q quit > ")
        screen.press("1")
        screen.until("q quit > ")
        screen.press("q")
        assert "1 labels by ann" in screen.until("by ann")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    (kept,) = data(config, "verdicts", "show", "ex_0")["labels"]
    assert (kept["label"], kept["fact_position"], kept["source"], kept["labeller"]) == ("true", 0, "d#1", "ann")


class Screen:
    """What a terminal shows."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def until(self, words: str) -> str:
        shown, end = "", time.monotonic() + 60
        while words not in shown:
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, end - time.monotonic()))
            assert ready, shown
            try:
                read = os.read(self._terminal, 65536)
            except OSError:  # the other end is closed
                read = b""
            assert read, shown
            shown += read.decode().replace("\r\n", "\n")
        return shown

    def press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())
