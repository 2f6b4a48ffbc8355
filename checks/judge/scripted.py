"""A judge that replies from a script, for tests and rehearsals. Its replies pass the same checks as a real one's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from checks.judge.reply import ReplyError, parse_reply
from checks.types import JudgeCall, JudgePrompt, JudgeReply, Reason

Said = Mapping[str, Any] | str | Reason
"""An object, raw text as a model would write it, or the reason of a failed call."""

Line = tuple[str | Callable[[JudgePrompt], bool], Said | Callable[[JudgePrompt], Said]]
"""When (a purpose, or a predicate of the prompt) and what to reply (a reply, or a function of the prompt)."""


class ScriptedJudge:
    """Takes the first line of the script that fits; with none that fits the judge is unavailable.

    `prompts` holds every prompt it was asked, in order.
    """

    def __init__(self, script: Sequence[Line], *, name: str = "scripted", model: str = "scripted-1") -> None:
        self._script = tuple(script)
        self._name = name
        self._model = model
        self.prompts: list[JudgePrompt] = []

    @property
    def name(self) -> str:
        return self._name

    async def judge(self, prompt: JudgePrompt, schema: Mapping[str, Any]) -> JudgeReply:
        self.prompts.append(prompt)
        said = self._said(prompt)
        if isinstance(said, Reason):
            return JudgeReply(None, self._call(prompt, "", f"scripted: {said.value}"), said)
        text = said if isinstance(said, str) else json.dumps(dict(said), ensure_ascii=False)
        try:
            return JudgeReply(parse_reply(text, schema), self._call(prompt, text, ""))
        except ReplyError as error:
            return JudgeReply(None, self._call(prompt, text, str(error)), Reason.JUDGE_REPLY_INVALID)

    def _said(self, prompt: JudgePrompt) -> Said:
        for when, said in self._script:
            if when(prompt) if callable(when) else when == prompt.purpose:
                return said(prompt) if callable(said) else said
        return Reason.JUDGE_UNAVAILABLE

    def _call(self, prompt: JudgePrompt, reply: str, error: str) -> JudgeCall:
        request = json.dumps({"system": prompt.system, "user": prompt.user}, ensure_ascii=False)
        return JudgeCall(
            judge=self._name,
            model=self._model,
            purpose=prompt.purpose,
            request=request,
            reply=reply,
            prompt_tokens=len(request) // 4,
            completion_tokens=len(reply) // 4,
            error=error,
        )
