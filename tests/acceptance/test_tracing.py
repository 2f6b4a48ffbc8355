"""A trace goes through a real gateway: from the caller, over search, model and check, to the collector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.asking import body
from tests.acceptance.judging import WordingJudge
from tests.acceptance.process import serving
from tests.acceptance.settings import lean
from tests.servers.collector import Collector
from tests.servers.upstream import UpstreamServer, completion, error_reply, json_reply

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture(name="upstream")
def fresh_upstream(session_upstream: UpstreamServer) -> UpstreamServer:
    session_upstream.forget()
    return session_upstream


async def test_one_trace_holds_caller_gateway_model_and_check_and_an_untraced_failure_is_kept(
    tmp_path: Path, upstream: UpstreamServer, session_judge: WordingJudge, fresh_postgres_url: str
) -> None:
    upstream.default = json_reply(completion("The Falcon drone weighs 3 kg."))
    config: dict[str, Any] = lean(
        tmp_path, upstream=upstream.base_url, judge=session_judge.base_url, database=fresh_postgres_url
    )
    async with Collector() as collector:
        config["telemetry"] = {"otlp_endpoint": collector.endpoint, "sample_ratio": 0}
        async with serving(tmp_path / "gateway.yaml", config) as gateway, httpx.AsyncClient(timeout=30) as http:
            place = f"{gateway.base_url}/r/held-block/v1/chat/completions"
            answer = await http.post(place, json=body(), headers={"traceparent": CALLER})
            exchange = answer.headers["x-grounding-exchange"]
            assert (await http.post(place, json=body())).status_code == answer.status_code == 200
            upstream.enqueue(error_reply(500))
            assert (await http.post(place, json=body())).status_code == 500
            spans = await collector.until(lambda spans: sum(span.kind == "server" for span in spans) >= 2)
            metrics = (await http.get(f"{gateway.base_url}/metrics")).text
        servers = [span for span in spans if span.kind == "server"]
        assert [span.attributes["http.response.status_code"] for span in servers] == [200, 500]  # not the second one
        traced = [span for span in spans if span.trace_id == TRACE]
        assert {span.name for span in traced} >= {"POST /r/held-block/v1/chat/completions", "chat m", "fact_check"}
        assert servers[0].attributes["grounding.exchange_id"] == exchange
        assert servers[0].parent_id == "00f067aa0ba902b7"
        # What the upstream makes of it hangs under our call of it.
        model = next(span for span in traced if span.name == "chat m")
        assert upstream.requests[0].headers["traceparent"] == f"00-{TRACE}-{model.span_id}-01"
        assert upstream.requests[1].headers["traceparent"].endswith("-00")
        assert servers[1].failed
        assert "grounding_traces_exported_total" in metrics
        assert "grounding_traces_dropped_total 0.0" in metrics
