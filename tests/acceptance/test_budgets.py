"""A false-alarm budget on a route, and what becomes of it when its facts are no longer like the labelled ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from checks.facts.classify import LocalClassifier
from tests.acceptance.process import serving
from tests.acceptance.settings import lean
from tests.acceptance.test_operation import run_command
from tests.servers.upstream import UpstreamServer, completion, json_reply

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

WRONG = "The Falcon weighs 90 kg."
MANY = " ".join(f"The Falcon flew {n} km over the harbour of Odessa." for n in range(100, 150))


def budgeted(folder: Path, version: str) -> dict[str, Any]:
    """A route that blocks what its labels say is wrong; the labelled facts were nearly all certain."""
    facts = [[0.01 + n / 10_000, False, False] for n in range(200)] + [[0.9, True, True]] * 20
    (folder / "calibration.json").write_text(json.dumps({"format": 1, "classifier": version, "facts": facts}))
    return {
        "upstream": "main",
        "check": {
            "kind": "facts",
            "collections": ["docs"],
            "classifier": {"kind": "features"},
            "aggregation": {"kind": "graded", "budget": 0.1, "calibration": "calibration.json"},
        },
        "release": "held",
        "action": "block",
        "on_unchecked": {"no_evidence": "allow"},
    }


async def test_facts_that_drift_away_from_the_labelled_ones_are_marked_and_no_longer_blocked(
    tmp_path: Path, session_upstream: UpstreamServer, fresh_postgres_url: str
) -> None:
    async with httpx.AsyncClient(timeout=120) as http:

        async def asked() -> httpx.Response:
            session_upstream.enqueue(json_reply(completion(WRONG)))
            body = {"model": "m", "messages": [{"role": "user", "content": "How heavy is the Falcon?"}]}
            return await http.post(f"{gateway.base_url}/r/careful/v1/chat/completions", json=body)

        config = lean(tmp_path, upstream=session_upstream.base_url, database=fresh_postgres_url)
        config["routes"]["careful"] = budgeted(tmp_path, LocalClassifier.read(entailment=False).version)
        async with serving(tmp_path / "gateway.yaml", config) as gateway:
            assert (await asked()).status_code == 422
            for _ in range(5):
                check = {"route": "careful", "query": "Where did the Falcon fly?", "answer": MANY}
                assert (await http.post(f"{gateway.base_url}/v1/check", json=check)).status_code == 200
            answer = await asked()
            assert answer.status_code == 200
            assert answer.json()["grounding"]["checks"][0]["status"] == "failed"
            assert (
                'grounding_scores_drifted{route="careful"} 1.0' in (await http.get(f"{gateway.base_url}/metrics")).text
            )
            assert "scores_drifted" in gateway.output


async def test_labels_of_another_classifier_are_refused_with_the_remedy(
    tmp_path: Path, session_upstream: UpstreamServer, fresh_postgres_url: str
) -> None:
    config = lean(tmp_path, upstream=session_upstream.base_url, database=fresh_postgres_url)
    config["routes"]["careful"] = budgeted(tmp_path, "another/1")
    (tmp_path / "gateway.yaml").write_text(json.dumps(config))
    code, output = await run_command("serve", "--config", str(tmp_path / "gateway.yaml"))
    assert code == 2, output
    assert "was made with the classifier another/1" in output
    assert "evaluate facts" in output
