"""Every dialect in every cell of release x action: the verdict and the record of chat completions, streamed or not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.scripted import ScriptedCheck
from gateway.api.ingress import Ingress, MessagesIngress, ResponsesIngress
from gateway.config.modes import TABLE, Action, Release
from gateway.upstream.scripted import ScriptedUpstream
from tests.gateway.exchange.running import Reply, Setting
from tests.gateway.exchange.test_parity import RULES, SENTENCES, plain, streamed
from tests.gateway.kit import static, without
from tests.gateway.wire.messages import reading as messages
from tests.gateway.wire.responses import reading as responses

CELLS = [(release, action) for (release, action), cell in TABLE.items() if not cell.refused]


def answer_of(ingress: Ingress, reply: Reply) -> dict[str, Any]:
    """An answer, whichever way it came."""
    if reply.headers["content-type"].startswith("application/json"):
        return dict(reply.json)
    read = messages.accumulated if isinstance(ingress, MessagesIngress) else responses.accumulated
    return read(reply.body)


def seen(ingress: Ingress, reply: Reply) -> Any:
    """What a client can tell about an answer."""
    if reply.status != 200:
        return reply.status, reply.json
    answer = answer_of(ingress, reply)
    usage = answer["usage"] and answer["usage"]["output_tokens"]
    if isinstance(ingress, ResponsesIngress):
        return answer["output"], answer["status"], answer["incomplete_details"], answer.get("grounding"), usage
    blocks = [{name: item for name, item in block.items() if item is not None} for block in answer["content"]]
    details = {name: item for name, item in (answer.get("stop_details") or {}).items() if item is not None}
    return blocks, answer["stop_reason"], details, answer.get("grounding"), usage


async def ask(ingress: Ingress, route: dict[str, Any], text: str, cuts: list[int], *, stream: bool) -> Reply:
    setting = Setting(
        ScriptedUpstream(streamed([text], cuts) if stream else plain([text])),
        ScriptedCheck(RULES),
        static("It goes 40 km on one charge.", "It weighs 2 kg."),
        route,
    )
    limit = {"max_tokens": 99} if isinstance(ingress, MessagesIngress) else {"input": "How far?"}
    return await setting.ask(stream=stream, ingress=ingress, **limit)


@pytest.mark.parametrize("ingress", [MessagesIngress(), ResponsesIngress()], ids=["messages", "responses"])
@pytest.mark.parametrize(("release", "action"), CELLS)
@given(
    sentences=st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 200), max_size=12),
    response=st.sampled_from(["error", "refusal"]),
)
@settings(max_examples=6, deadline=None)
def test_no_dialect_and_no_mode_gets_another_verdict_or_record(
    ingress: Ingress, release: Release, action: Action, sentences: list[str], cuts: list[int], response: str
) -> None:
    """BerriAI/litellm #35257, #14152: guards that did not run on one endpoint, or on its streams."""
    if release is Release.SENTENCE and action is Action.BLOCK:
        response = "refusal"
    route = {"release": release.value, "action": action.value, "block_response": response}
    text = " ".join(sentences)

    async def all_ways() -> list[Reply]:
        return [
            await ask(ingress, route, text, cuts, stream=False),
            await ask(ingress, route, text, cuts, stream=True),
            await Setting(
                ScriptedUpstream(plain([text])),
                ScriptedCheck(RULES),
                static("It goes 40 km on one charge.", "It weighs 2 kg."),
                route,
            ).ask(stream=False, max_completion_tokens=99),
        ]

    one, other, chat = asyncio.run(all_ways())
    cut_off = release is Release.SENTENCE and one.records[0].outcome == "blocked"
    assert seen(ingress, one)[: 4 if cut_off else 5] == seen(ingress, other)[: 4 if cut_off else 5]
    ignored = ("stream", "request_body", "sent_body", "answer_body")
    if cut_off:
        ignored = (*ignored, "usage", "finish_reasons")  # the upstream was cut off before it told
    records = [without(reply.records[0], *ignored) for reply in (one, other, chat)]
    assert records[0] == records[1] == records[2]
    if one.status == 422:
        assert one.json["error"]["grounding"] == chat.json["error"]["grounding"]
        assert one.json["error"]["type"] == "invalid_request_error"
        assert one.headers["x-should-retry"] == "false"
    else:
        assert answer_of(ingress, one).get("grounding") == chat.json.get("grounding")
