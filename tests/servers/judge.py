"""A small server that speaks as much of OpenAI's and Anthropic's API as a judge uses, by a script of replies.

Each request takes the next reply of the script (the last one stays). `requests` and `headers` keep what was asked.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Body = dict[str, Any] | list[Any] | str


@dataclass
class Reply:
    """A status with a body (object or raw text) and headers; `hold` keeps the reply back until the server closes."""

    body: Body = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hold: bool = False


Script = Sequence[Reply | Callable[[dict[str, Any]], Reply]]


@dataclass
class JudgeServer:
    """A running server: its address, and what it was asked."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    open_now: int = 0
    open_most: int = 0


def completion(
    content: str | None, *, finish: str = "stop", refusal: str | None = None, model: str = "m-2026"
) -> Reply:
    """OpenAI's chat completion with one choice."""
    message = {"role": "assistant", "content": content, "refusal": refusal}
    return Reply(
        {
            "id": "c1",
            "object": "chat.completion",
            "created": 1,
            "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200},
        }
    )


def message(*blocks: dict[str, Any], stop: str = "tool_use", model: str = "m-2026") -> Reply:
    """Anthropic's message with the given content blocks."""
    return Reply(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": list(blocks),
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": 1000, "output_tokens": 200},
        }
    )


def tool_use(value: Any) -> dict[str, Any]:
    """A tool call of the forced tool."""
    return {"type": "tool_use", "id": "t1", "name": "give_reply", "input": value}


def text(words: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words}


@asynccontextmanager
async def judge_server(script: Script) -> AsyncIterator[JudgeServer]:
    """Serve the script on a free port of the loopback interface."""
    server = JudgeServer()
    closing = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        line = script[min(len(server.requests), len(script) - 1)]
        server.requests.append(body)
        server.headers.append(dict(request.headers))
        server.open_now += 1
        server.open_most = max(server.open_most, server.open_now)
        try:
            reply = line(body) if callable(line) else line
            if reply.hold:
                await closing.wait()
            await asyncio.sleep(0)
        finally:
            server.open_now -= 1
        raw = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
        headers = {"content-type": "application/json", **reply.headers}
        return web.Response(body=raw.encode(), status=reply.status, headers=headers)

    app = web.Application()
    app.router.add_post("/{tail:.*}", handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield server
    finally:
        closing.set()
        await runner.cleanup()
