"""A judge that reads facts by their wording, as a model server: what the fact says decides its label.

"... wrong ..."      false          "... unknown ..."   not supported
"... garbled ..."    an invalid reply
"... stalling ..."   no reply at all (`asked` is set, `released` when the gateway has hung up)
anything else        true
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

_FACT = re.compile(r"<<<FACT \w+\n(.*?)\nFACT \w+>>>", re.DOTALL)
_PASSAGE = re.compile(r"<<<PASSAGE \w+\n(.*?)\nPASSAGE \w+>>>", re.DOTALL)


class WordingJudge:
    """Its address, what it was asked, and who waits for it."""

    def __init__(self) -> None:
        self.base_url = ""
        self.facts: list[str] = []
        self.asked = asyncio.Event()
        self.released = asyncio.Event()
        self.let_go = asyncio.Event()

    def forget(self) -> None:
        """As new."""
        self.facts.clear()
        self.asked.clear()
        self.released.clear()
        self.let_go.clear()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        data = body["messages"][-1]["content"]
        found, passage = _FACT.search(data), _PASSAGE.search(data)
        assert found is not None
        assert passage is not None
        fact = found[1]
        self.facts.append(fact)
        if "stalling" in fact:
            self.asked.set()
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.released.set()
                raise
        verdict = {"quote": passage[1][:40], "label": _label(fact), "confidence": 100}
        content = "I would rather not say" if "garbled" in fact else json.dumps(verdict)
        return web.json_response(_completion(content))


def _label(fact: str) -> str:
    if "wrong" in fact:
        return "false"
    return "not_supported" if "unknown" in fact else "true"


def _completion(content: str) -> dict[str, Any]:
    return {
        "id": "j1",
        "object": "chat.completion",
        "created": 1,
        "model": "judge-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


@asynccontextmanager
async def wording_judge() -> AsyncGenerator[WordingJudge, None]:
    """Serve it on a free port of the loopback interface."""
    judge = WordingJudge()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", judge._answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    judge.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield judge
    finally:
        judge.let_go.set()
        await runner.cleanup()
