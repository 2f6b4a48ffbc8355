"""Who may begin now, who waits, and who is told to come again: places by route, in one worker process.

A route may have a number of places of its own, and a bounded line before them. What all routes share is shared fairly:
the last fifth is only for routes that use less than an equal share, so that a flood on one never shuts out another.
Nobody waits whose client has gone. It knows nothing of what is done at a place.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from gateway.config.model import LoadConfig
from gateway.errors import OverloadedError

COMMON: Final = 0.8
"""Up to this share of all places nobody looks at who takes them."""
LONGEST_HINT_S: Final = 30
_NEW: Final = 0.1
"""How much the latest request counts in the mean time of a route's requests."""


class GoneError(Exception):
    """The client went away while it waited."""


@dataclass(slots=True)
class _Lane:
    running: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    mean_s: float = 1.0


class Turnstile:
    """The places of one process. `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lanes: dict[str, _Lane] = {}
        self.running = 0

    def stats(self) -> Mapping[str, float]:
        """How many wait in all lines."""
        return {"waiting": float(sum(len(lane.waiting) for lane in self._lanes.values()))}

    async def enter(
        self,
        route: str,
        load: LoadConfig,
        capacity: int | None,
        gone: Callable[[], Awaitable[None]] | None = None,
    ) -> Place:
        """Take a place, waiting in line where there is one; `gone` returns when the client has left.

        `capacity` are the places of all routes, None where there is but one route. Raises `OverloadedError`, or
        `GoneError` for a client that left the line.
        """
        lane = self._lanes.get(route)
        if lane is None:
            lane = self._lanes[route] = _Lane()
        if capacity is not None and self._unfair(lane, capacity):
            raise OverloadedError(
                f"the route '{route}' has more than its share of this gateway's places, which are nearly all taken; "
                "try again soon",
                retry_after=_hint(lane.mean_s),
            )
        places = load.concurrency
        if places is not None and lane.running >= places:
            await self._wait(route, lane, load, places, gone)
        else:
            self._take(lane)
        return Place(self, lane, places, self._clock())

    def leave(self, lane: _Lane, places: int | None, seconds: float) -> None:
        """Give a place back; whoever stands first in line gets it."""
        lane.running -= 1
        self.running -= 1
        lane.mean_s += _NEW * (seconds - lane.mean_s)
        while lane.waiting and (places is None or lane.running < places):
            first = lane.waiting.popleft()
            if not first.done():
                self._take(lane)
                first.set_result(None)

    def _take(self, lane: _Lane) -> None:
        lane.running += 1
        self.running += 1

    def _unfair(self, lane: _Lane, capacity: int) -> bool:
        if self.running < COMMON * capacity:
            return False
        active = sum(1 for other in self._lanes.values() if other.running or other is lane)
        return lane.running >= capacity / max(2, active)

    async def _wait(
        self,
        route: str,
        lane: _Lane,
        load: LoadConfig,
        places: int,
        gone: Callable[[], Awaitable[None]] | None,
    ) -> None:
        hint = _hint(lane.mean_s * (len(lane.waiting) + 1) / places)
        if len(lane.waiting) >= load.queue:
            raise OverloadedError(
                f"the route '{route}' serves {places} requests at once and {load.queue} wait already; "
                f"try again in {hint} s",
                retry_after=hint,
            )
        turn = asyncio.get_running_loop().create_future()
        lane.waiting.append(turn)
        watch = asyncio.ensure_future(gone()) if gone is not None else None
        try:
            waited: set[asyncio.Future[None]] = {turn} if watch is None else {turn, watch}
            await asyncio.wait(waited, timeout=load.wait, return_when=asyncio.FIRST_COMPLETED)
            if watch is not None and watch.done():
                raise GoneError
            if not turn.done():
                raise OverloadedError(
                    f"the route '{route}' had no place for this request within {load.wait:g} s; try again in {hint} s",
                    retry_after=hint,
                )
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.leave(lane, places, lane.mean_s)  # the place came at the same moment
            turn.cancel()
            with suppress(ValueError):
                lane.waiting.remove(turn)
            raise
        finally:
            if watch is not None:
                watch.cancel()


class Place:
    """A place that was taken; given back once."""

    __slots__ = ("_began", "_lane", "_places", "_turnstile")

    def __init__(self, turnstile: Turnstile, lane: _Lane, places: int | None, began: float) -> None:
        self._turnstile: Turnstile | None = turnstile
        self._lane = lane
        self._places = places
        self._began = began

    def leave(self) -> None:
        """Give it back."""
        turnstile, self._turnstile = self._turnstile, None
        if turnstile is not None:
            turnstile.leave(self._lane, self._places, turnstile._clock() - self._began)


def _hint(seconds: float) -> int:
    return max(1, min(LONGEST_HINT_S, math.ceil(seconds)))
