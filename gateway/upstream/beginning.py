"""How far an answer has to be read until something is said: a role or an empty event is no answer yet."""

from __future__ import annotations

from gateway.upstream.base import UpstreamReply
from gateway.wire.types import Delta, MessageView


async def first_content(reply: UpstreamReply) -> list[Delta]:
    """The deltas up to the first that says something, and those that came with it."""
    ready: list[Delta] = []
    async for delta in reply.deltas:
        ready.append(delta)
        if _says(delta):
            ready.extend(reply.arrived())
            break
    return ready


def _says(delta: Delta) -> bool:
    if delta.whole:
        return True
    return any(
        choice.finish_reason is not None or (choice.delta is not None and _has_content(choice.delta))
        for choice in delta.view.choices or ()
    )


def _has_content(view: MessageView) -> bool:
    said = (view.content, view.refusal, view.reasoning_content, view.reasoning)
    return any(said) or any((view.tool_calls, view.function_call, view.audio))
