"""A judge behind Anthropic's Messages API (or a server compatible with it), through the `anthropic` SDK."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from checks.errors import JudgeSetupError
from checks.judge.base import CallError, Dialect, JudgeSettings, VendorJudge, VendorReply, count, in_words
from checks.judge.reply import ReplyError, portable
from checks.types import JudgePrompt

_ADDRESS = "https://api.anthropic.com"
_TOOL = "give_reply"
_UNUSABLE_STOP = {
    "max_tokens": "the reply was cut at the token limit",
    "model_context_window_exceeded": "the reply was cut at the context window",
    "refusal": "the judge refused",
    "pause_turn": "the reply is unfinished",
}


class AnthropicJudge(VendorJudge):
    """Structured output by one forced tool call whose input is the reply, else plain text.

    Raises `JudgeSetupError` when Anthropic itself is meant (no `base_url`) and there is no key.
    """

    def __init__(self, settings: JudgeSettings, *, clock: Callable[[], float] = time.perf_counter) -> None:
        if settings.base_url is None and not settings.api_key:
            raise JudgeSetupError(
                f"judge {settings.name!r} has neither a key nor a base_url",
                hint="set api_key (or api_key_file), or base_url of a server that needs no key",
            )
        super().__init__(settings, Dialect("tool"), clock=clock)

    def _open(self) -> Any:
        if self._client is None:
            import anthropic

            settings = self._settings
            self._client = anthropic.AsyncAnthropic(
                # An explicit key, so that one from the environment never goes to another address.
                api_key=settings.api_key or "none",
                # The SDK adds /v1 itself.
                base_url=(settings.base_url or _ADDRESS).rstrip("/").removesuffix("/v1"),
                timeout=settings.timeout_s,
                max_retries=settings.attempts - 1,
                http_client=anthropic.DefaultAsyncHttpxClient(proxy=settings.proxy, verify=settings.tls()),
            )
        return self._client

    def _request(self, prompt: JudgePrompt, schema: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self._settings.model,
            "system": prompt.system if dialect.form == "tool" else prompt.system + in_words(schema),
            "messages": [{"role": "user", "content": prompt.user}],
            "max_tokens": self._tokens_allowed(prompt),
        }
        if dialect.temperature and self._settings.temperature is not None:
            request["temperature"] = min(self._settings.temperature, 1.0)
        if dialect.form == "tool":
            tool = {"name": _TOOL, "description": "Give the reply.", "input_schema": portable(schema)}
            request |= {"tools": [tool], "tool_choice": {"type": "tool", "name": _TOOL}}
        return request

    async def _send(self, request: dict[str, Any]) -> str:
        # The SDK has no parameter for it, the API of many models has.
        extra = {name: request[name] for name in ("temperature",) if name in request}
        named = {name: value for name, value in request.items() if name not in extra}
        raw = await self._open().messages.with_raw_response.create(**named, extra_body=extra or None)
        return str(raw.http_response.text)

    def _read(self, body: Any) -> VendorReply:
        try:
            blocks = body["content"]
            usage = body.get("usage") or {}
            cached = count(usage.get("cache_read_input_tokens")) + count(usage.get("cache_creation_input_tokens"))
            return VendorReply(
                model=str(body.get("model") or self._settings.model),
                text="".join(block["text"] for block in blocks if block.get("type") == "text"),
                objects=tuple(block["input"] for block in blocks if block.get("type") == "tool_use"),
                unusable=_UNUSABLE_STOP.get(str(body.get("stop_reason")), ""),
                tokens=(count(usage.get("input_tokens")) + cached, count(usage.get("output_tokens"))),
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise ReplyError("the body is not a message") from error

    def _plainer(self, dialect: Dialect, failure: CallError) -> Dialect | None:
        if dialect.temperature and self._settings.temperature is not None and "temperature" in failure.message:
            return replace(dialect, temperature=False)
        return replace(dialect, form="text") if dialect.form == "tool" else None
