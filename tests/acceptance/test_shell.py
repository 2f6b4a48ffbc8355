"""One question and one given answer from the shell, on a machine that has nothing but the configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "UPSTREAM_"))}
    return subprocess.run(
        [sys.executable, "-m", "gateway", *arguments, "--config", "examples/quickstart/gateway.yaml"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**inherited, "GATEWAY_DATA_DIR": str(data), "PYTHONPATH": str(ROOT)},
        check=False,
    )


def test_a_first_question_from_the_shell_is_answered_checked_and_recorded(tmp_path: Path) -> None:
    asked = run(tmp_path, "ask", "What does the Monthly plan cost?", "--json")
    assert asked.returncode == 0, asked.stderr
    assert "exchange" not in asked.stderr  # the answer is the output: no log line of its own exchange
    answer = json.loads(asked.stdout)
    assert "27" in answer["choices"][0]["message"]["content"]
    assert answer["grounding"]["checks"][0]["status"] == "passed"
    wrong = run(tmp_path, "check", "Riders of the Pelican must be at least 16 years old.", "--query", "Who may ride?")
    assert wrong.returncode == 1, wrong.stderr
    assert "18" in wrong.stdout  # the sentence that refutes it
    listed = run(tmp_path, "verdicts", "list", "--json")
    ids = {item["id"] for item in json.loads(listed.stdout)["data"]}
    assert answer["grounding"]["exchange_id"] in ids
    assert len(ids) == 2
