"""`grounding-gateway evaluate facts` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.checks.evaluate.rows import written
from tests.gateway.cli.test_cli import run
from tests.gateway.config.files import MINIMAL


def test_one_command_gives_a_table_json_and_plots(tmp_path: Path) -> None:
    done = run("evaluate", "facts", "--data", str(written(tmp_path)), "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    header, *rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert header[:5] == ["set", "level", "question", "classifier", "aggregation"]
    assert {(row[3], row[4]) for row in rows} >= {("local", "strict"), ("local", "graded"), ("overlap", "strict")}
    told = json.loads((tmp_path / "out" / "facts.json").read_text(encoding="utf-8"))
    assert told["versions"]["local"].startswith("facts-")
    assert (tmp_path / "out" / "museum-facts-false-against-true-roc.svg").exists()
    again = run("evaluate", "facts", "--data", str(tmp_path), "--json")
    assert json.loads(again.stdout) == told


def test_a_wrong_folder_or_judge_is_a_usage_error_with_a_remedy(tmp_path: Path) -> None:
    missing = run("evaluate", "facts", "--data", str(tmp_path))
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "no *.jsonl" in missing.stderr
    (tmp_path / "gateway.yaml").write_text(MINIMAL, encoding="utf-8")
    unknown = run(
        "evaluate",
        "facts",
        "--data",
        str(written(tmp_path)),
        "--judge",
        "x",
        "--config",
        str(tmp_path / "gateway.yaml"),
    )
    assert unknown.returncode == 2
    assert "no judge 'x'" in unknown.stderr


def test_a_budget_of_false_alarms_becomes_a_setting_or_is_refused_with_the_reason(tmp_path: Path) -> None:
    done = run("evaluate", "facts", "--data", str(written(tmp_path)), "--budget", "0.4")
    assert done.returncode == 0, done.stderr
    assert "museum, local: false alarms within 0.4: aggregation: {kind: graded, fail_threshold: 0." in done.stdout
    tight = run("evaluate", "facts", "--data", str(tmp_path), "--budget", "0.1")
    assert "no fail_threshold keeps it, needs 9 labelled true facts, there are 3" in tight.stdout


def test_a_judge_that_is_away_is_told_and_not_left_out_in_silence(tmp_path: Path) -> None:
    away = 'careful: {kind: openai, model: m, base_url: "http://127.0.0.1:9/v1", api_key: k, attempts: 1}'
    config = tmp_path / "gateway.yaml"
    config.write_text(MINIMAL.replace("careful: {kind: openai, model: m}", away), encoding="utf-8")
    done = run("evaluate", "facts", "--data", str(written(tmp_path)), "--judge", "careful", "--config", str(config))
    assert done.returncode == 0, done.stderr
    for who in ("judge careful", "self-check careful"):
        assert f"{who}: nothing could be judged" in done.stderr
        assert who not in done.stdout
