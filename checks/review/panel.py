"""The judges of one review, with what bounds them: calls at once, deadlines, money, and patience with a dead judge.

Every call goes through here, so that a reply that is known already is never paid for again, and a judge that fails
again and again is left alone for the rest of the review: it abstains, and nobody waits for it. Knows no prompt's
meaning. Only cancellation is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checks.review.cache import Replies, reply_key
from checks.types import Judge, JudgeCall, JudgePrompt, JudgeReply, Reason

_DEAD = frozenset({Reason.TIMEOUT, Reason.JUDGE_UNAVAILABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one review. Seconds and USD; `give_up_after` failed calls in a row end the use of a judge."""

    call_s: float = 60.0
    calls_at_once: int = 8
    give_up_after: int = 3
    max_cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply, and whether it was known already (then the call it carries was made, and paid, earlier)."""

    reply: JudgeReply
    cached: bool = False


@dataclass(slots=True)
class _Seat:
    judge: Judge
    slots: asyncio.Semaphore
    failed_in_a_row: int = 0


@dataclass(slots=True)
class _Purse:
    """Money spent, with the dearest call so far held back for every call under way."""

    most: float | None
    spent: float = 0.0
    dearest: float = 0.0
    under_way: int = 0

    def empty(self) -> bool:
        return self.most is not None and self.spent + self.dearest * (self.under_way + 1) > self.most

    def pay(self, cost: float) -> None:
        self.spent += cost
        self.dearest = max(self.dearest, cost)


@dataclass(slots=True)
class Panel:
    """Asks judges by their place. `versions` names what stands behind a judge's name (its model), for the cache.

    `slots`, one for each judge, bound its calls over several reviews; waiting for one counts to no deadline of a call.
    """

    judges: Sequence[Judge]
    limits: Limits = field(default_factory=Limits)
    replies: Replies | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    slots: Sequence[asyncio.Semaphore] = ()
    _seats: list[_Seat] = field(init=False)
    _purse: _Purse = field(init=False)

    def __post_init__(self) -> None:
        slots = self.slots or call_slots(len(self.judges), self.limits.calls_at_once)
        self._seats = [_Seat(judge, own) for judge, own in zip(self.judges, slots, strict=True)]
        self._purse = _Purse(self.limits.max_cost_usd)

    @property
    def spent_usd(self) -> float:
        """What this review has cost so far, as far as prices are known."""
        return self._purse.spent

    @property
    def out_of_money(self) -> bool:
        """Whether the cost cap has been reached."""
        return self._purse.empty()

    def name(self, place: int) -> str:
        return self.judges[place].name

    async def ask(self, place: int, prompt: JudgePrompt, schema: Mapping[str, Any]) -> Answered:
        """One call, or what is known of it already."""
        seat = self._seats[place]
        key = ""
        if self.replies is not None:
            key = reply_key(seat.judge.name, self.versions.get(seat.judge.name, ""), prompt)
            known = await self.replies.get(key)
            if known is not None:
                return Answered(known, cached=True)
        async with seat.slots:
            refused = self._refusal(seat, prompt)
            if refused is not None:
                return Answered(refused)
            reply = await self._call(seat, prompt, schema)
        if self.replies is not None:
            await self.replies.put(key, reply)
        return Answered(reply)

    def _refusal(self, seat: _Seat, prompt: JudgePrompt) -> JudgeReply | None:
        if seat.failed_in_a_row >= self.limits.give_up_after:
            why = f"not asked: {seat.failed_in_a_row} calls in a row failed"
            return _failed(seat.judge, prompt, Reason.JUDGE_UNAVAILABLE, why)
        if self._purse.empty():
            return _failed(seat.judge, prompt, Reason.TOO_LONG, "not asked: the review has reached its cost cap")
        return None

    async def _call(self, seat: _Seat, prompt: JudgePrompt, schema: Mapping[str, Any]) -> JudgeReply:
        self._purse.under_way += 1
        try:
            async with asyncio.timeout(self.limits.call_s):
                reply = await seat.judge.judge(prompt, schema)
        except TimeoutError:
            reply = _failed(seat.judge, prompt, Reason.TIMEOUT, f"no reply within {self.limits.call_s:g} s")
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:500]
            reply = _failed(seat.judge, prompt, Reason.JUDGE_UNAVAILABLE, why)
        finally:
            self._purse.under_way -= 1
        self._purse.pay(reply.call.cost_usd or 0.0)
        seat.failed_in_a_row = seat.failed_in_a_row + 1 if reply.reason in _DEAD else 0
        return reply


def call_slots(judges: int, calls_at_once: int) -> tuple[asyncio.Semaphore, ...]:
    """Slots for so many judges; share them between the panels of reviews that run at the same time."""
    return tuple(asyncio.Semaphore(calls_at_once) for _ in range(judges))


def _failed(judge: Judge, prompt: JudgePrompt, reason: Reason, why: str) -> JudgeReply:
    call = JudgeCall(judge.name, "", prompt.purpose, "", "", error=why)
    return JudgeReply(None, call, reason)
