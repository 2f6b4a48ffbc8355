"""A bot's reviews through a real gateway over a real repository: what is made up leaves, the rest stays as it was."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from tests.acceptance.asking import BOTH, Said, ask
from tests.acceptance.process import GatewayProcess, serving
from tests.acceptance.reviewing import FILES, IssueJudge, issue_judge, make_repository, review_house
from tests.servers.upstream import Reply, UpstreamServer, chat_events, completion, json_reply, sse_reply

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

INTRO = "Reviewed «basket» 🚲:\n\n"
REAL = "### src/shop/basket.py:8\n\n**low**: `total` walks all items again at each call.\n\n"
PHANTOM = "### src/shop/basket.py:7\n\n**low**: A phantom lock in `total` is never released.\n\n"
ELSEWHERE = "### src/shop/basket.py:8\n\n**low**: `price_of` is defined elsewhere and raises for unknown items.\n\n"
REVIEW = INTRO + REAL + PHANTOM + ELSEWHERE + "### src/shop/prices.py:6\n\n**low**: Unknown items cost nothing.\n"


@dataclass
class ReviewHouse:
    """The gateway with what stands around it."""

    gateway: GatewayProcess
    upstream: UpstreamServer
    judge: IssueJudge
    revision: str
    http: httpx.AsyncClient
    openai: AsyncOpenAI

    async def review(self, route: str, text: str, *, stream: bool, **grounding: Any) -> Said:
        reply = sse_reply(chat_events(text, usage=True)) if stream else json_reply(completion(text))
        return await self.answer(route, reply, stream=stream, **grounding)

    async def answer(self, route: str, reply: Reply, *, stream: bool, **grounding: Any) -> Said:
        self.upstream.enqueue(reply)
        client = self.openai.with_options(base_url=f"{self.gateway.base_url}/r/{route}/v1")
        extra = {"grounding": grounding} if grounding else {}
        messages = [{"role": "user", "content": "Review this change."}]
        return await ask(client, stream=stream, messages=messages, extra_body=extra)

    async def pinned(self, route: str, text: str, *, stream: bool) -> Said:
        return await self.review(route, text, stream=stream, repository="shop", revision=self.revision)

    async def record(self, exchange: str) -> dict[str, Any]:
        async with asyncio.timeout(90):
            while True:
                reply = await self.http.get(f"/v1/exchanges/{exchange}")
                if reply.status_code == 200:
                    return dict(reply.json())
                await asyncio.sleep(0.02)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def house(
    tmp_path_factory: pytest.TempPathFactory, session_upstream: UpstreamServer, session_database: str
) -> AsyncIterator[ReviewHouse]:
    folder: Path = tmp_path_factory.mktemp("reviews")
    revision = make_repository(folder / "shop")
    async with issue_judge() as judge:
        config = review_house(
            folder,
            upstream=session_upstream.base_url,
            judge=judge.base_url,
            database=session_database,
            repository=folder / "shop",
        )
        async with (
            serving(folder / "gateway.yaml", config) as gateway,
            httpx.AsyncClient(base_url=gateway.base_url, timeout=30) as http,
            AsyncOpenAI(base_url=f"{gateway.base_url}/v1", api_key="none", max_retries=0, timeout=30) as client,
        ):
            session_upstream.forget()
            yield ReviewHouse(gateway, session_upstream, judge, revision, http, client)


@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
async def test_what_is_made_up_leaves_and_every_other_character_stays(house: ReviewHouse, stream: bool) -> None:
    said = await house.pinned("review", REVIEW, stream=stream)
    assert said.text == REVIEW.replace(PHANTOM, "").replace(ELSEWHERE, "")
    assert said.finishes == {0: "stop"}
    (check,) = said.checks
    assert (check["kind"], check["status"], check["action"]) == ("code_review", "failed", "filter")
    labels = [issue["label"] for issue in check["issues"]]
    assert labels == ["valid", "hallucination", "hallucination", "valid"]
    hop = check["issues"][2]["hop"]
    assert (hop["asked"]["file_path"], hop["matched"]) == ("src/prices.py", "src/shop/prices.py")


@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
async def test_the_verdict_is_in_postgres_with_votes_files_hops_and_cost(house: ReviewHouse, stream: bool) -> None:
    said = await house.pinned("review", REVIEW, stream=stream)
    record = await house.record(said.exchange)
    (check,) = record["checks"]
    assert (record["check_status"], check["details"]["revision"]) == ("failed", house.revision)
    phantom, elsewhere = check["facts"][1], check["facts"][2]
    assert "phantom lock" in phantom["text"]
    assert phantom["issue"]["action"] == "drop"
    assert [(vote["judge"], vote["label"]) for vote in phantom["issue"]["votes"]] == [
        ("one", "hallucination"),
        ("two", "hallucination"),
    ]
    assert {file["path"] for file in elsewhere["issue"]["files"]} == {"src/shop/basket.py", "src/shop/prices.py"}
    assert elsewhere["issue"]["hops"][0]["matched"] == "src/shop/prices.py"
    assert elsewhere["detail"]["votes"][0]["reason"].startswith("because")
    assert all(call["model"] == "judge-2026" for call in check["calls"] if not call["error"])
    assert record["body"]["answers"]["0"] == REVIEW


async def test_a_streamed_and_a_plain_review_are_the_same_review(house: ReviewHouse) -> None:
    for route in ("review", "marked", "live"):
        one, other = [await house.pinned(route, REVIEW, stream=stream) for stream in BOTH]
        assert one.text == other.text
        assert [check["issues"] for check in one.checks] == [check["issues"] for check in other.checks]


async def test_an_annotated_review_keeps_every_issue_and_a_live_one_every_character(house: ReviewHouse) -> None:
    marked = await house.pinned("marked", REVIEW, stream=True)
    assert marked.text != REVIEW
    for piece in ("phantom lock", "defined elsewhere", "walks all items", "cost nothing"):
        assert piece in marked.text
    live = await house.pinned("live", REVIEW, stream=True)
    assert live.text == REVIEW
    assert live.checks[0]["status"] == "failed"


async def test_known_code_reviewed_again_asks_no_judge_again(house: ReviewHouse) -> None:
    text = INTRO + REAL.replace("walks", "strolls over")
    await house.pinned("review", text, stream=False)
    asked = len(house.judge.asked)
    said = await house.pinned("review", text, stream=False)
    assert len(house.judge.asked) == asked
    assert said.checks[0]["status"] == "passed"


@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
async def test_a_judge_that_is_away_costs_no_issue(house: ReviewHouse, stream: bool) -> None:
    said = await house.pinned("lame", REVIEW, stream=stream)
    assert said.text.startswith(INTRO + REAL)
    votes = [vote for check in said.checks for issue in check["issues"] for vote in issue["votes"]]
    assert {vote["label"] for vote in votes if vote["judge"] == "away"} <= {None}
    record = await house.record(said.exchange)
    assert record["outcome"] == "completed"
    blind = await house.pinned("blind", INTRO + REAL.replace("walks", "marches over"), stream=stream)
    assert blind.text.startswith(INTRO)


@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
async def test_an_unknown_revision_or_repository_passes_the_review_on_and_says_so(
    house: ReviewHouse, stream: bool
) -> None:
    for pin in (
        {"repository": "shop", "revision": "0" * 40},
        {"repository": "other", "revision": house.revision},
        {"revision": "no-such-branch"},
    ):
        said = await house.review("review", REVIEW, stream=stream, **pin)
        assert said.text == REVIEW
        (check,) = said.checks
        assert (check["status"], check["reason"]) == ("not_checked", "no_evidence")
        assert any(word in check["detail"] for word in ("revision", "repository"))


@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
async def test_the_bots_other_calls_pass_on_unchanged(house: ReviewHouse, stream: bool) -> None:
    for text in ('{"score": 8, "why": "clear"}', "This change adds a basket.", "Yes."):
        said = await house.pinned("review", text, stream=stream)
        assert said.text == text
        assert said.checks[0]["reason"] == "no_facts"


async def test_a_review_in_a_tool_call_is_filtered_in_its_arguments(house: ReviewHouse) -> None:
    issues = [
        {"file": "src/shop/basket.py", "line": 8, "severity": "low", "title": "Slow", "body": "Walks all items."},
        {"file": "src/shop/basket.py", "line": 7, "severity": "low", "title": "A phantom lock", "body": "Phantom."},
    ]
    function = {"name": "post_review", "arguments": json.dumps({"issues": issues})}
    call = {"id": "c1", "type": "function", "function": function}
    body = completion(None, finish="tool_calls", tool_calls=[call])
    said = await house.answer("review", json_reply(body), stream=False, repository="shop", revision=house.revision)
    assert json.loads(said.calls[0][0]["arguments"]) == {"issues": issues[:1]}
    assert said.checks[0]["issues"][1]["part"] == "tool_calls[0]"


async def test_shadow_changes_nothing_for_the_bot_and_records_the_verdict(house: ReviewHouse) -> None:
    for route, options in (("shadow", {}), ("review", {"check": "shadow"})):
        said = await house.review(route, REVIEW, stream=True, repository="shop", revision=house.revision, **options)
        assert said.text == REVIEW
        record = await house.record(said.exchange)
        assert record["checks"][0]["status"] == "failed"
    with pytest.raises(openai.PermissionDeniedError, match=r"does not allow grounding\.release"):
        await house.review("shadow", REVIEW, stream=False, release="held")
    house.upstream.forget()  # the refused request never reached it
    off = await house.review("review", REVIEW, stream=False, check="off")
    assert (off.text, off.checks[0]["reason"]) == (REVIEW, "disabled")


async def test_code_that_the_request_carries_is_enough_where_there_is_no_repository(house: ReviewHouse) -> None:
    house.upstream.enqueue(json_reply(completion(INTRO + PHANTOM)))
    client = house.openai.with_options(base_url=f"{house.gateway.base_url}/r/carried/v1")
    path = "src/shop/basket.py"
    prompt = f"Review this file.\n\n`{path}`\n```python\n{FILES[path]}```\n"
    said = await ask(client, stream=False, messages=[{"role": "user", "content": prompt}])
    assert said.text.strip() == INTRO.strip()
    record = await house.record(said.exchange)
    assert record["checks"][0]["details"]["partial"] is True


async def test_a_review_at_hand_is_checked_and_metrics_tell_of_it(house: ReviewHouse) -> None:
    body = {"answer": PHANTOM, "route": "review", "repository": "shop", "revision": house.revision}
    reply = (await house.http.post("/v1/check", json=body)).json()
    assert reply["status"] == "failed"
    assert "phantom" not in reply["filtered"]
    assert "phantom" in reply["marked"]
    metrics = (await house.http.get("/metrics")).text
    assert 'grounding_issues_total{action="drop",label="hallucination",route="review"}' in metrics
    assert 'grounding_reviews_emptied_total{route="review"}' in metrics
    assert 'grounding_judge_cost_usd_total{judge="one"}' in metrics


@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
@pytest.mark.parametrize("dialect", ["responses", "messages"])
async def test_a_bot_of_another_dialect_gets_the_filtered_review_too(
    house: ReviewHouse, dialect: str, stream: bool
) -> None:
    house.upstream.enqueue(sse_reply(chat_events(REVIEW)) if stream else json_reply(completion(REVIEW)))
    asked = (
        {"input": "Review."}
        if dialect == "responses"
        else {"max_tokens": 100, "messages": [{"role": "user", "content": "Review."}]}
    )
    pin = {"repository": "shop", "revision": house.revision}
    reply = await house.http.post(
        f"/r/review/v1/{dialect}", json={"model": "m", **asked, "stream": stream, "grounding": pin}
    )
    assert reply.status_code == 200
    assert "phantom" not in reply.text
    assert "walks all items again" in reply.text
