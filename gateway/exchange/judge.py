"""The check of a whole answer: one verdict per choice, never an exception for a failing check."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from checks.types import Case, Check, Reason, Status, Verdict
from gateway.exchange import reviews
from gateway.exchange.decide import REVIEW
from gateway.exchange.parts import RouteParts, Services
from gateway.wire.types import Answer, ChoiceAnswer


def not_checked(kind: str, choice: int, reason: Reason, detail: str = "") -> Verdict:
    """The verdict that says that there is none."""
    return Verdict(kind=kind, status=Status.NOT_CHECKED, reason=reason, choice=choice, detail=detail)


def case_of(base: Case, choice: ChoiceAnswer) -> Case:
    """The case of one choice; `base` carries what the choices share."""
    return replace(
        base,
        answer=choice.content or "",
        choice=choice.index,
        refusal=choice.refusal or "",
        has_tool_calls=bool(choice.tool_calls or choice.function_call),
        has_media=choice.audio is not None,
        truncated=choice.finish_reason == "length",
    )


async def judge_all(
    parts: RouteParts,
    check: Check,
    answer: Answer,
    base: Case,
    services: Services,
    tools: Mapping[str, Mapping[str, Any]] | None = None,
    limit_s: float | None = None,
) -> list[Verdict]:
    """One verdict per choice, in the order of their indexes. `tools` are schemas of tools, by name.

    What has no verdict within `limit_s` seconds is not checked (`timeout`).
    """
    choices = [answer.choices[index] for index in sorted(answer.choices)]
    started = services.clock()

    async def judged(choice: ChoiceAnswer) -> Verdict:
        try:
            async with asyncio.timeout(limit_s):
                if check.kind == REVIEW:
                    return await _judge_parts(parts, check, choice, base, services, tools or {})
                return await _judge(parts, check, case_of(base, choice), services)
        except TimeoutError:
            return not_checked(check.kind, choice.index, Reason.TIMEOUT, "the time that the request gave was over")

    verdicts = await asyncio.gather(*(judged(choice) for choice in choices))
    services.observer.stage(parts.name, "check", services.clock() - started)
    return list(verdicts)


async def _judge_parts(
    parts: RouteParts,
    check: Check,
    choice: ChoiceAnswer,
    base: Case,
    services: Services,
    tools: Mapping[str, Mapping[str, Any]],
) -> Verdict:
    """A review may stand in the content or in the arguments of tool calls: each is judged by itself."""
    cases = reviews.cases(case_of(base, choice), choice, tools)
    verdicts = await asyncio.gather(*(_judge(parts, check, case, services) for case in cases.values()))
    return replace(reviews.merged(dict(zip(cases, verdicts, strict=True))), choice=choice.index)


async def _judge(parts: RouteParts, check: Check, case: Case, services: Services) -> Verdict:
    try:
        verdict = await check.check(case)
        if reviews.fits(case, verdict):
            return verdict
        error: Exception = ValueError("the check gave edits that do not fit the text it judged")
    except Exception as raised:  # a third party's check may raise anything; an answer must not be lost by it
        error = raised
    services.observer.problem("check_crashed", error, route=parts.name)
    return not_checked(check.kind, case.choice, Reason.JUDGE_UNAVAILABLE, f"the check failed: {type(error).__name__}")


def overall(verdicts: Sequence[Verdict]) -> tuple[str, str | None]:
    """One status for the whole answer and its reason: failed outranks not checked, which outranks passed."""
    for status in (Status.FAILED, Status.NOT_CHECKED):
        for verdict in verdicts:
            if verdict.status is status:
                return status.value, verdict.reason.value if verdict.reason else None
    return (Status.PASSED.value, None) if verdicts else (Status.NOT_CHECKED.value, Reason.DISABLED.value)
