"""A judge behind an OpenAI-compatible server, through the `openai` SDK. Knows chat completions only."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from checks.errors import JudgeSetupError
from checks.judge.base import CallError, Dialect, JudgeSettings, VendorJudge, VendorReply, count, in_words
from checks.judge.reply import ReplyError, portable
from checks.types import JudgePrompt

_ADDRESS = "https://api.openai.com/v1"
_PLAINER = {"json_schema": "json_object", "json_object": "text"}
_UNUSABLE_FINISH = {
    "length": "the reply was cut at the token limit",
    "content_filter": "the reply was stopped by the provider's content filter",
}


class OpenAIJudge(VendorJudge):
    """Structured output by `json_schema`, else `json_object`, else plain text.

    Raises `JudgeSetupError` when OpenAI itself is meant (no `base_url`) and there is no key.
    """

    def __init__(self, settings: JudgeSettings, *, clock: Callable[[], float] = time.perf_counter) -> None:
        if settings.base_url is None and not settings.api_key:
            raise JudgeSetupError(
                f"judge {settings.name!r} has neither a key nor a base_url",
                hint="set api_key (or api_key_file), or base_url of a server that needs no key",
            )
        super().__init__(settings, Dialect("json_schema"), clock=clock)

    def _open(self) -> Any:
        if self._client is None:
            import openai

            settings = self._settings
            self._client = openai.AsyncOpenAI(
                # An explicit key, so that one from the environment never goes to another address.
                api_key=settings.api_key or "none",
                base_url=settings.base_url or _ADDRESS,
                timeout=settings.timeout_s,
                max_retries=settings.attempts - 1,
                http_client=openai.DefaultAsyncHttpxClient(proxy=settings.proxy, verify=settings.tls()),
            )
        return self._client

    def _request(self, prompt: JudgePrompt, schema: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
        system = prompt.system if dialect.form == "json_schema" else prompt.system + in_words(schema)
        request: dict[str, Any] = {
            "model": self._settings.model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": prompt.user}],
            dialect.tokens_field: self._tokens_allowed(prompt),
        }
        if dialect.temperature and self._settings.temperature is not None:
            request["temperature"] = self._settings.temperature
        if dialect.form == "json_schema":
            named = {"name": prompt.purpose, "strict": True, "schema": portable(schema)}
            request["response_format"] = {"type": "json_schema", "json_schema": named}
        elif dialect.form == "json_object":
            request["response_format"] = {"type": "json_object"}
        return request

    async def _send(self, request: dict[str, Any]) -> str:
        raw = await self._open().chat.completions.with_raw_response.create(**request)
        return str(raw.http_response.text)

    def _read(self, body: Any) -> VendorReply:
        try:
            choice = body["choices"][0]
            message = choice["message"]
            usage = body.get("usage") or {}
            said = VendorReply(
                model=str(body.get("model") or self._settings.model),
                text=message.get("content") or "",
                tokens=(count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))),
            )
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ReplyError("the body is not a chat completion") from error
        if not isinstance(said.text, str):
            raise ReplyError("the message's content is not text")
        unusable = _UNUSABLE_FINISH.get(str(choice.get("finish_reason")), "")
        if not unusable and message.get("refusal"):
            unusable = "the judge refused"
        return replace(said, unusable=unusable)

    def _plainer(self, dialect: Dialect, failure: CallError) -> Dialect | None:
        message = failure.message
        if dialect.tokens_field == "max_tokens" and "max_completion_tokens" in message:
            return replace(dialect, tokens_field="max_completion_tokens")
        if dialect.temperature and self._settings.temperature is not None and "temperature" in message:
            return replace(dialect, temperature=False)
        form = _PLAINER.get(dialect.form)
        return replace(dialect, form=form) if form else None
