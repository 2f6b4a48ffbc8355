"""Answers of a server that speaks the Responses API, as OpenAI's own types have them."""

from __future__ import annotations

from typing import Any

from tests.servers.upstream import Reply, sse_reply


def output_text(text: str, *annotations: dict[str, Any]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


def said(*parts: dict[str, Any], identity: str = "msg_1") -> dict[str, Any]:
    """A message of the model."""
    return {"type": "message", "id": identity, "status": "completed", "role": "assistant", "content": list(parts)}


def reasoning(text: str, encrypted: str | None = None) -> dict[str, Any]:
    item = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}], "status": None}
    return {**item, **({"encrypted_content": encrypted} if encrypted else {})}


def function_call(name: str, arguments: str, call_id: str) -> dict[str, Any]:
    head = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "status": "completed"}
    return {**head, "name": name, "arguments": arguments}


def custom_call(name: str, text: str, call_id: str) -> dict[str, Any]:
    return {"type": "custom_tool_call", "id": f"ctc_{call_id}", "call_id": call_id, "name": name, "input": text}


def response(*output: Any, status: str = "completed", **fields: Any) -> dict[str, Any]:
    """A whole response; a string stands for a message that says it."""
    items = [said(output_text(item)) if isinstance(item, str) else item for item in output]
    return {
        "id": "resp_1", "object": "response", "created_at": 1_700_000_000.0, "status": status, "error": None,
        "incomplete_details": None, "model": "m-1", "output": items, "parallel_tool_calls": True, "tools": [],
        "tool_choice": "auto",
        "usage": {
            "input_tokens": 5, "input_tokens_details": {"cached_tokens": 2}, "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 1}, "total_tokens": 8,
        },
        **fields,
    }  # fmt: skip


def response_events(value: dict[str, Any], *, size: int = 5, deltas: bool = True) -> list[dict[str, Any]]:
    """The events that say `value`, texts in pieces of `size`; without `deltas` a server that only tells whole items."""
    head = {**value, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": f"response.{name}", "response": head} for name in ("created", "in_progress")
    ]
    for index, item in enumerate(value["output"]):
        place = {"output_index": index, "item_id": item.get("id")}
        empty = {**item, "status": "in_progress"}
        empty.update(
            {name: kind() for name, kind in (("content", list), ("arguments", str), ("input", str)) if name in item}
        )
        empty.pop("encrypted_content", None)
        events.append({"type": "response.output_item.added", "output_index": index, "item": empty})
        if deltas:
            events += [{**event, **place} for event in _pieces(item, size)]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": f"response.{value['status']}", "response": value})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _pieces(item: dict[str, Any], size: int) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for at, part in enumerate(item.get("summary") or ()):
        out += [
            {"type": "response.reasoning_summary_text.delta", "summary_index": at, "delta": piece}
            for piece in _cut(part["text"], size)
        ]
    for at, part in enumerate(item.get("content") or ()):
        kind = part["type"]
        text = part["refusal"] if kind == "refusal" else part["text"]
        out.append({"type": "response.content_part.added", "content_index": at, "part": {"type": part["type"]}})
        out += [{"type": f"response.{kind}.delta", "content_index": at, "delta": piece} for piece in _cut(text, size)]
        out.append({"type": f"response.{kind}.done", "content_index": at, "text": text})
        for number, note in enumerate(part.get("annotations") or ()):
            more = {"annotation_index": number, "annotation": note}
            out.append({"type": "response.output_text.annotation.added", "content_index": at, **more})
    for field, kind in (("arguments", "function_call_arguments"), ("input", "custom_tool_call_input")):
        if field in item:
            out += [{"type": f"response.{kind}.delta", "delta": piece} for piece in _cut(item[field], size)]
            out.append({"type": f"response.{kind}.done", field: item[field]})
    return out


def _cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def streamed_response(*output: Any, **fields: Any) -> Reply:
    """A streamed response; such servers send no `[DONE]`."""
    return sse_reply(response_events(response(*output, **fields)), done=False)
