"""More requests than a route can serve: some wait, the others are told at once when to come again, none is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.turnstile import GoneError, Place, Turnstile
from gateway.config.model import LoadConfig
from gateway.errors import OverloadedError
from gateway.upstream.scripted import Script, ScriptedUpstream, text_script
from tests.gateway.kit import Gateway, chat_body, gateway

OPEN = LoadConfig()


def load(concurrency: int, queue: int = 0, wait: float = 60.0) -> LoadConfig:
    return LoadConfig.model_validate({"concurrency": concurrency, "queue": queue, "wait": wait})


class Stepping:
    """An upstream whose answers wait until they are let go, one gate each."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        steps = text_script("Forty.", stream=False).steps
        self.upstream = ScriptedUpstream(Script(steps=(self.gate, *steps)))

    async def reached(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.upstream.served) < count:
                await asyncio.sleep(0)


@pytest.fixture
def stepping() -> Stepping:
    return Stepping()


async def post(gate: Gateway) -> httpx.Response:
    return await gate.http.post("/v1/chat/completions", json=chat_body())


async def waiting(gate: Gateway, count: int) -> None:
    async with asyncio.timeout(20):
        while gate.desk.turnstile.stats()["waiting"] != count:
            await asyncio.sleep(0)


async def test_requests_beyond_a_routes_places_wait_and_those_beyond_its_line_are_told_at_once(
    stepping: Stepping,
) -> None:
    async with gateway(stepping.upstream, load={"concurrency": 1, "queue": 1}) as gate:
        first = asyncio.create_task(post(gate))
        await stepping.reached(1)
        second = asyncio.create_task(post(gate))
        await waiting(gate, 1)
        refused = await post(gate)
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "overloaded"
        assert int(refused.headers["retry-after"]) >= 1
        assert len(stepping.upstream.served) == 1
        stepping.gate.set()
        assert [(await task).status_code for task in (first, second)] == [200, 200]
        assert len(gate.records) == 2


async def test_a_client_that_leaves_the_line_is_not_served(stepping: Stepping) -> None:
    async with gateway(stepping.upstream, load={"concurrency": 1, "queue": 5}) as gate:
        first = asyncio.create_task(post(gate))
        await stepping.reached(1)
        second = asyncio.create_task(post(gate))
        await waiting(gate, 1)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        await waiting(gate, 0)
        stepping.gate.set()
        assert (await first).status_code == 200
        assert (await post(gate)).status_code == 200
        assert len(stepping.upstream.served) == 2


async def test_who_waits_too_long_is_told_to_come_again(stepping: Stepping) -> None:
    async with gateway(stepping.upstream, load={"concurrency": 1, "queue": 5, "wait": 0.01}) as gate:
        first = asyncio.create_task(post(gate))
        await stepping.reached(1)
        assert (await post(gate)).status_code == 503
        stepping.gate.set()
        assert (await first).status_code == 200


async def test_a_flood_on_one_route_leaves_places_for_another() -> None:
    turnstile = Turnstile(lambda: 0.0)
    places = []
    for _ in range(200):
        try:
            places.append(await turnstile.enter("flooded", OPEN, 100))
        except OverloadedError:
            continue
    assert len(places) == 80
    quiet = [await turnstile.enter("quiet", OPEN, 100) for _ in range(20)]
    assert len(quiet) == 20
    for place in (*places, *quiet):
        place.leave()
        place.leave()
    assert turnstile.running == 0


async def test_one_route_alone_may_use_every_place() -> None:
    turnstile = Turnstile(lambda: 0.0)
    assert len([await turnstile.enter("only", OPEN, None) for _ in range(150)]) == 150


async def test_the_line_is_served_in_order() -> None:
    turnstile = Turnstile(lambda: 0.0)
    first = await turnstile.enter("r", load(1, 10), None)
    order: list[int] = []

    async def wait(number: int) -> None:
        place = await turnstile.enter("r", load(1, 10), None)
        order.append(number)
        place.leave()

    tasks = [asyncio.create_task(wait(number)) for number in range(5)]
    await asyncio.sleep(0)
    first.leave()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4]


@given(
    st.lists(st.sampled_from(["come", "leave", "give up", "go away"]), max_size=60),
    st.integers(1, 3),
    st.integers(0, 4),
)
def test_no_place_is_ever_lost_or_given_twice(steps: list[str], places: int, queue: int) -> None:
    asyncio.run(_walk(steps, places, queue))


async def _walk(steps: list[str], places: int, queue: int) -> None:
    turnstile, policy = Turnstile(lambda: 0.0), load(places, queue)
    held: list[Place] = []
    waiters: list[tuple[asyncio.Task[Place], asyncio.Event]] = []
    for step in steps:
        if step == "come":
            left = asyncio.Event()

            async def gone(event: asyncio.Event = left) -> None:
                await event.wait()

            waiters.append((asyncio.create_task(turnstile.enter("r", policy, None, gone)), left))
        elif step == "leave" and held:
            held.pop().leave()
        elif step == "give up" and waiters:
            waiters[-1][0].cancel()
        elif step == "go away" and waiters:
            waiters[-1][1].set()
        await _settle(held, waiters)
        assert len(held) <= places
        assert turnstile.running == len(held)
        assert turnstile.stats()["waiting"] == len(waiters) <= queue
        assert not waiters or len(held) == places, "somebody waits beside an empty place"
    for place in held:
        place.leave()
    for task, _ in waiters:
        task.cancel()
    for outcome in await asyncio.gather(*(task for task, _ in waiters), return_exceptions=True):
        if isinstance(outcome, Place):
            outcome.leave()
    assert turnstile.running == 0


async def _settle(held: list[Place], waiters: list[tuple[asyncio.Task[Any], asyncio.Event]]) -> None:
    """Let everything that can happen do so, and sort the tasks that came to an end."""
    for _ in range(6):
        await asyncio.sleep(0)
    for task, event in list(waiters):
        if task.done():
            waiters.remove((task, event))
            if not task.cancelled() and task.exception() is None:
                held.append(task.result())
            elif not task.cancelled():
                assert isinstance(task.exception(), OverloadedError | GoneError)
