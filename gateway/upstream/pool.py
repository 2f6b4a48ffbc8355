"""Several upstreams as one: who is asked first, who stands in, and for how long a failing one is left alone.

Nothing of an answer leaves before its first real content: what fails until then is asked of somebody else, within the
tries and the time of one request. After that a failure is the client's to hear. The state of each member (its breaker)
lives in this process. It knows nothing of routes, and members are opened and closed by whoever made them.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType

from gateway.errors import (
    RequestError,
    UpstreamError,
    UpstreamStatusError,
    UpstreamTimeoutError,
    UpstreamUnavailableError,
)
from gateway.upstream.base import Attempt, Upstream, UpstreamReply, UpstreamRequest
from gateway.upstream.beginning import first_content
from gateway.upstream.breaker import Breaker, BreakerPolicy, BreakerState
from gateway.upstream.failing import Cause, Meaning, meaning
from gateway.upstream.forwarding import PoolForward
from gateway.upstream.retrying import RetryPolicy
from gateway.wire import chat
from gateway.wire.types import Delta

SUPERSEDED = "superseded"
"""The error code of a try that was given up because another one answered first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """`retries.attempts` counts tries at all members together; `max_delay_s` bounds every wait. `total_s` bounds one
    request, its answer included. After `hedge_after_s` without content a second member is asked beside the first."""

    retries: RetryPolicy = field(default_factory=RetryPolicy)
    causes: frozenset[Cause] = field(default_factory=lambda: frozenset(Cause))
    breaker: BreakerPolicy = field(default_factory=BreakerPolicy)
    total_s: float = 600.0
    hedge_after_s: float | None = None


class Member:
    """One upstream of a pool. Smaller `priority` goes first; among equals `weight` decides. `model` replaces the name
    of the model that was asked for. `forwards` says that it can pass requests on unread."""

    __slots__ = ("breaker", "forwards", "model", "priority", "upstream", "weight")

    def __init__(
        self,
        upstream: Upstream,
        *,
        weight: int = 1,
        priority: int = 0,
        model: str | None = None,
        forwards: bool = True,
    ) -> None:
        self.upstream = upstream
        self.weight = weight
        self.priority = priority
        self.model = model
        self.forwards = forwards
        self.breaker = Breaker(BreakerPolicy())


class PoolUpstream:
    """An `Upstream` over members. `clock` is monotonic seconds, `now` Unix time, `dice` gives numbers in [0, 1)."""

    def __init__(
        self,
        name: str,
        members: Sequence[Member],
        settings: PoolSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self._name = name
        self.settings = settings
        self.members = tuple(members)
        self.first = min(member.priority for member in self.members)
        self.clock = clock
        self.now = now
        self.dice = dice
        for member in self.members:
            member.breaker = Breaker(settings.breaker)

    @property
    def name(self) -> str:
        return self._name

    async def aopen(self) -> None:
        """Nothing to open: the members are upstreams of their own."""

    async def aclose(self) -> None:
        """Nothing to close."""

    def send(self, request: UpstreamRequest) -> _PoolCall:
        """Ask the members in turn. Raises what the one said that tells the client most, with every try in `tries`."""
        return _PoolCall(self, request)

    def forward(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, authorization: str | None
    ) -> PoolForward:
        """Pass a request on unread, to another member only while the request never left."""
        order = self._forwarding()
        calls = [(m, m.upstream.forward(method, path, headers, body, authorization)) for m in order]
        if not calls:
            raise self.unavailable()
        return PoolForward([(member.breaker, call) for member, call in calls], self.clock)

    def states(self) -> Iterable[tuple[str, BreakerState]]:
        """Every member's breaker, by the member's name."""
        now = self.clock()
        return [(member.upstream.name, member.breaker.state(now)) for member in self.members]

    def choose(self, without: Iterable[Member]) -> Member | None:
        """The member to ask next, admitted by its breaker; None if nobody may be asked now."""
        now = self.clock()
        left = [member for member in self.members if member not in without and _free(member, now)]
        if not left:
            return None
        first = min(member.priority for member in left)
        chosen = _weighted([member for member in left if member.priority == first], self.dice())
        chosen.breaker.admit(now)
        return chosen

    def unavailable(self) -> UpstreamUnavailableError:
        """Nobody may be asked, and when somebody may."""
        now = self.clock()
        free = [at for member in self.members if (at := member.breaker.free_at(now)) is not None]
        wait_s = max(1, math.ceil(min(free) - now)) if free else 1
        return UpstreamUnavailableError(
            f"every upstream of {self._name!r} has failed lately and is left alone for now; "
            f"somebody is asked again in {wait_s} s",
            retry_after=wait_s,
        )

    def _forwarding(self) -> list[Member]:
        now = self.clock()
        able = [member for member in self.members if member.forwards and _free(member, now)]
        able.sort(key=lambda member: (member.priority, -(self.dice() ** (1.0 / member.weight))))
        return able


def _free(member: Member, now: float) -> bool:
    free = member.breaker.free_at(now)
    return free is not None and free <= now


def _weighted(members: Sequence[Member], dice: float) -> Member:
    """One of them, by weight; `dice` in [0, 1)."""
    at = dice * sum(member.weight for member in members)
    for member in members:
        at -= member.weight
        if at < 0:
            return member
    return members[-1]


class _Begun:
    """An answer of which something is there: deltas that were read, those to come, and what closes it."""

    __slots__ = ("_inner", "_pool", "_ready", "member", "reply", "resources")

    def __init__(
        self,
        pool: PoolUpstream,
        member: Member,
        reply: UpstreamReply,
        ready: Sequence[Delta],
        resources: AsyncExitStack,
    ) -> None:
        self.member = member
        self.reply = reply
        self.resources = resources
        self._pool = pool
        self._ready = deque(ready)
        self._inner: AsyncIterator[Delta] = aiter(reply.deltas)

    def __aiter__(self) -> _Begun:
        return self

    async def __anext__(self) -> Delta:
        if self._ready:
            return self._ready.popleft()
        try:
            return await anext(self._inner)
        except UpstreamError:
            self.member.breaker.failed(self._pool.clock())
            raise

    def arrived(self) -> list[Delta]:
        """What came together with the last one."""
        arrived = [*self._ready, *self.reply.arrived()]
        self._ready.clear()
        return arrived


class _PoolCall:
    """Context of one request to the pool."""

    def __init__(self, pool: PoolUpstream, request: UpstreamRequest) -> None:
        self._pool = pool
        self._request = request
        self._began = pool.clock()
        self._total_s = min(pool.settings.total_s, request.limit_s or pool.settings.total_s)
        self._attempts: list[Attempt] = []
        self._errors: list[UpstreamError | RequestError] = []
        self._asked: set[Member] = set()
        self._barred: set[Member] = set()
        self._started = 0
        self._rounds = 0
        self._begun: _Begun | None = None

    async def __aenter__(self) -> UpstreamReply:
        while True:
            outcome = await self._outcome()
            if isinstance(outcome, _Begun):
                return self._reply(outcome)
            if outcome is not None and not outcome.goes_on:
                raise self._failure(self._errors[-1])
            if self._started >= self._pool.settings.retries.attempts:
                raise self._failure()
            if not self._others_wait():
                await self._pause()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._begun is not None:
            await self._begun.resources.__aexit__(kind, error, trace)

    def _reply(self, begun: _Begun) -> UpstreamReply:
        self._begun = begun
        fallback = begun.member.priority > self._pool.first
        # Those that failed or were given up came first, whenever they ended.
        attempts = tuple(sorted(self._attempts, key=lambda attempt: not attempt.error))
        return UpstreamReply(begun.reply.status, begun.reply.headers, begun, attempts, begun.arrived, fallback)

    # -- one try, or two beside each other -----------------------------------------------------------------------------

    async def _outcome(self) -> _Begun | Meaning | None:
        """An answer, what the last failure means, or None if nobody may be asked now."""
        member = self._take()
        if member is None:
            return None
        hedge_after_s = self._pool.settings.hedge_after_s
        if hedge_after_s is None:
            return await self._try(member)
        running = {asyncio.create_task(self._try(member))}
        try:
            done, _ = await asyncio.wait(running, timeout=hedge_after_s)
            if not done and (other := self._take()) is not None:
                running.add(asyncio.create_task(self._try(other)))
            while True:
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    running.discard(task)
                    outcome = task.result()
                    if isinstance(outcome, _Begun) or not running:
                        return outcome
        finally:
            await _give_up(running)

    def _take(self) -> Member | None:
        if self._started >= self._pool.settings.retries.attempts:
            return None
        member = self._pool.choose(self._asked | self._barred)
        if member is not None:
            self._started += 1
            self._asked.add(member)
        return member

    async def _try(self, member: Member) -> _Begun | Meaning:
        pool = self._pool
        began = pool.clock()
        name = member.upstream.name
        try:
            async with AsyncExitStack() as resources:
                reply = await resources.enter_async_context(member.upstream.send(self._adapted(member)))
                ready = await first_content(reply)
                member.breaker.succeeded()
                self._attempts.append(Attempt(name, reply.status, pool.clock() - began))
                return _Begun(pool, member, reply, ready, resources.pop_all())
        except (UpstreamError, RequestError) as error:
            status = error.upstream_status if isinstance(error, UpstreamStatusError) else None
            self._attempts.append(Attempt(name, status, pool.clock() - began, error.code))
            self._errors.append(error)
            found = meaning(error, pool.settings.retries.statuses, pool.settings.causes, pool.now())
            if isinstance(error, UpstreamTimeoutError) and self._in_a_hurry():
                found = Meaning(goes_on=False)  # a client that cannot wait says nothing of the server
            self._learn(member, found)
            return found
        except BaseException:
            member.breaker.abandoned()
            self._attempts.append(Attempt(name, None, pool.clock() - began, SUPERSEDED))
            raise

    def _learn(self, member: Member, found: Meaning) -> None:
        now = self._pool.clock()
        if found.rest_s is not None:
            member.breaker.rests(now, found.rest_s)
        elif found.ill:
            member.breaker.failed(now)
        else:
            member.breaker.abandoned()
        if found.final:
            self._barred.add(member)

    def _adapted(self, member: Member) -> UpstreamRequest:
        request = replace(self._request, once=True, limit_s=self._remaining_s())
        if member.model is None or request.chat is None:
            return request
        body = chat.encode_request(request.chat, model=member.model)
        return replace(request, body=body, model=member.model)

    # -- between tries -------------------------------------------------------------------------------------------------

    def _remaining_s(self) -> float:
        return max(0.001, self._total_s - (self._pool.clock() - self._began))

    def _in_a_hurry(self) -> bool:
        """The time that the client gave is over, and was shorter than that of the pool."""
        given = self._total_s < self._pool.settings.total_s
        return given and self._pool.clock() - self._began >= self._total_s * 0.9

    def _others_wait(self) -> bool:
        """Somebody who was not asked in this round may be asked now."""
        now = self._pool.clock()
        out = self._asked | self._barred
        return any(member not in out and _free(member, now) for member in self._pool.members)

    async def _pause(self) -> None:
        """Wait until a new round may begin. Raises when that is too long, or no use.

        A member that is open is not waited for: all requests that wait for it would come at once.
        """
        pool, policy = self._pool, self._pool.settings.retries
        now = pool.clock()
        rests = [
            max(0.0, free - now)
            for member in pool.members
            if member not in self._barred
            and member.breaker.state(now) is BreakerState.CLOSED
            and (free := member.breaker.free_at(now)) is not None
        ]
        bound = min(policy.max_delay_s, policy.base_delay_s * 2.0**self._rounds)
        delay_s = max(min(rests), bound * pool.dice() if self._asked else 0.0) if rests else math.inf
        if delay_s > policy.max_delay_s or delay_s >= self._remaining_s():
            raise self._failure()
        await asyncio.sleep(delay_s)
        self._asked.clear()
        self._rounds += 1

    def _failure(self, error: UpstreamError | RequestError | None = None) -> UpstreamError | RequestError:
        """The error that tells the client most: a server's own words before what we found, the latest of each."""
        if error is None:
            of_upstreams = [e for e in self._errors if isinstance(e, UpstreamError)]
            spoken = [e for e in of_upstreams if isinstance(e, UpstreamStatusError)]
            refused = self._errors if len(self._barred) == len(self._pool.members) else []
            error = next((found[-1] for found in (spoken, of_upstreams, refused) if found), None)
        if error is None:
            error = self._pool.unavailable()
        if isinstance(error, UpstreamError):
            error.attempts = max(1, len(self._attempts))
            error.tries = tuple((a.upstream, a.status, a.seconds, a.error) for a in self._attempts)
        return error


async def _give_up(running: Iterable[asyncio.Task[_Begun | Meaning]]) -> None:
    """End the tries that nobody waits for any more; one that has just begun to answer is closed."""
    tasks = list(running)
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, _Begun):
            await outcome.resources.aclose()
