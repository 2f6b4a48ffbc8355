"""Judges and replies for tests of the review check."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from checks.judge.scripted import Said, ScriptedJudge
from checks.types import JudgeCall, JudgePrompt, JudgeReply, Reason

VALID, HALLUCINATION, UNDETERMINED = "Valid Issue", "Hallucination", "Undetermined"


def said(evaluation: str, why: str = "because", **more: Any) -> dict[str, Any]:
    """A reply to an evaluation prompt."""
    asked = {f"{kind}_{n}": f"{kind} {n}" for n in (1, 2, 3) for kind in ("question", "answer")}
    return {**asked, "quotes": [], "absent": [], "evaluation": evaluation, "evaluation_reason": why, **more}


def asks(file_path: str = "", class_name: str = "", file_name: str = "") -> dict[str, str]:
    """A request for a further file."""
    return {"class_name": class_name, "file_name": file_name, "file_path": file_path}


def judge(name: str, evaluate: Said | Callable[[JudgePrompt], Said], request: Said | None = None) -> ScriptedJudge:
    """A judge with one answer to every evaluation, and one to every request for a file."""
    script: list[Any] = [("evaluate", evaluate)]
    if request is not None:
        script.append(("request_file", request))
    return ScriptedJudge(script, name=name)


class CountingJudge:
    """Answers `evaluation` when let through by `gate`; counts how many calls were under way at once."""

    def __init__(self, name: str, evaluation: str = VALID, *, gate: asyncio.Event | None = None, cost: float = 0.0):
        self._name = name
        self._evaluation = evaluation
        self._gate = gate
        self._cost = cost
        self.under_way = self.most = self.calls = 0
        self.started = asyncio.Event()

    @property
    def name(self) -> str:
        return self._name

    async def judge(self, prompt: JudgePrompt, schema: Mapping[str, Any]) -> JudgeReply:
        self.calls += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.started.set()
        try:
            if self._gate is not None:
                await self._gate.wait()
            else:
                for _ in range(3):
                    await asyncio.sleep(0)
        finally:
            self.under_way -= 1
        call = JudgeCall(self._name, "counted", prompt.purpose, "", "", cost_usd=self._cost)
        return JudgeReply(said(self._evaluation), call)


class DeadJudge:
    """Never answers."""

    def __init__(self, name: str = "dead") -> None:
        self._name = name
        self.calls = 0

    @property
    def name(self) -> str:
        return self._name

    async def judge(self, prompt: JudgePrompt, schema: Mapping[str, Any]) -> JudgeReply:
        self.calls += 1
        await asyncio.Event().wait()
        raise AssertionError("never")


UNAVAILABLE = Reason.JUDGE_UNAVAILABLE
