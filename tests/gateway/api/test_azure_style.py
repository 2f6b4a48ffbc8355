"""Clients made for Azure OpenAI reach the same routes, by the official SDK's own Azure client."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from gateway.upstream.openai import OpenAISettings, OpenAIUpstream
from tests.gateway.kit import Gateway, gateway
from tests.servers.upstream import UpstreamServer, chat_events, completion, json_reply, sse_reply

QUESTION: Any = [{"role": "user", "content": "How far?"}]


def azure_client(served: Gateway, place: str = "", **fields: Any) -> openai.AsyncAzureOpenAI:
    return openai.AsyncAzureOpenAI(
        azure_endpoint=served.base_url + place, api_key="none", api_version="2024-10-21", max_retries=0, **fields
    )


@pytest.mark.parametrize("stream", [False, True])
async def test_a_deployment_is_a_route_or_a_model(stream: bool) -> None:
    async with UpstreamServer() as server:
        upstream = OpenAIUpstream(OpenAISettings(base_url=server.base_url), "main")
        async with gateway(upstream, default=True, client_model=True) as served, azure_client(served) as client:
            for asked, sent in (("test", "m"), ("gpt-4o", "gpt-4o")):
                server.enqueue(sse_reply(chat_events("Far.")) if stream else json_reply(completion("Far.")))
                create: Any = client.chat.completions.create
                answer = await create(model=asked, messages=QUESTION, stream=stream)
                if stream:
                    said = "".join([c.choices[0].delta.content or "" async for c in answer])
                else:
                    said = answer.choices[0].message.content
                assert said == "Far."
                assert (server.requests[-1].json["model"], server.requests[-1].path) == (sent, "/v1/chat/completions")
            assert [record.model for record in served.records] == ["test", "gpt-4o"]
            assert served.records[0].path == "/openai/deployments/test/chat/completions"


async def test_the_path_names_the_deployment_where_the_body_names_none() -> None:
    async with UpstreamServer() as server:
        upstream = OpenAIUpstream(OpenAISettings(base_url=server.base_url), "main")
        async with gateway(upstream, model=None) as served:
            path = "/r/test/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21"
            response = await served.http.post(path, json={"messages": QUESTION})
            assert response.status_code == 200
            missing = await served.http.post("/openai/deployments/nothing", json={"messages": QUESTION})
            assert missing.status_code == 404
        assert [received.json["model"] for received in server.requests] == ["gpt-4o"]


async def test_embeddings_of_a_deployment_are_forwarded_without_azures_version() -> None:
    async with UpstreamServer() as server:
        server.default = json_reply(
            {
                "object": "list",
                "data": [{"index": 0, "object": "embedding", "embedding": [0.5]}],
                "model": "ada",
                "usage": {},
            }
        )
        upstream = OpenAIUpstream(OpenAISettings(base_url=server.base_url), "main")
        async with gateway(upstream, default=True, other_paths="forward") as served:
            async with azure_client(served, "/r/test") as client:
                await client.embeddings.create(model="ada", input="x")
            async with httpx.AsyncClient(base_url=served.base_url) as http:
                await http.post("/openai/v1/embeddings", json={"model": "ada", "input": "x"})
        assert [received.path for received in server.requests] == ["/v1/embeddings", "/v1/embeddings"]
