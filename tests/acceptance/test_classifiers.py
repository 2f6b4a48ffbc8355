"""Classifiers of others on a route: what their model says becomes the verdict, what it fails to say does not."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.process import serving
from tests.acceptance.settings import lean
from tests.servers.judge import Reply, judge_server
from tests.servers.upstream import UpstreamServer

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


def detector(body: dict[str, Any]) -> Reply:
    """An entailment model that knows one word."""

    def entry(passage: str, fact: str) -> list[dict[str, Any]]:
        wrong = "90" in fact and "kg" in passage
        return [
            {"label": "LABEL_0", "score": 0.02 if not wrong else 0.95},
            {"label": "LABEL_1", "score": 0.98 if not wrong else 0.05},
        ]

    return Reply([entry(passage, fact) for passage, fact in body["inputs"]])


async def test_a_detector_behind_an_endpoint_judges_the_facts_of_a_route_and_its_absence_is_no_verdict(
    tmp_path: Path, session_upstream: UpstreamServer, fresh_postgres_url: str
) -> None:
    async def verdict(answer: str) -> dict[str, Any]:
        async with httpx.AsyncClient(timeout=60) as http:
            asked = {"route": "detected", "query": "How heavy is the Falcon?", "answer": answer}
            return dict((await http.post(f"{gateway.base_url}/v1/check", json=asked)).json()["grounding"]["checks"][0])

    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(judge_server([detector]))
        config = lean(tmp_path, upstream=session_upstream.base_url, database=fresh_postgres_url)
        classifier = {"kind": "endpoint", "url": server.url, "labels": {"LABEL_0": False, "LABEL_1": True}}
        config["routes"]["detected"] = {
            "upstream": "main",
            "check": {"kind": "facts", "collections": ["docs"], "classifier": classifier},
        }
        async with serving(tmp_path / "gateway.yaml", config) as gateway:
            right, wrong = await verdict("The Falcon weighs 3 kg."), await verdict("The Falcon weighs 90 kg.")
            assert (right["status"], wrong["status"]) == ("passed", "failed")
            assert wrong["facts"][0]["label"] == "false"
            await stack.aclose()
            away = await verdict("The Falcon weighs 3 kg.")
            assert (away["status"], away["reason"]) == ("not_checked", "judge_unavailable")
