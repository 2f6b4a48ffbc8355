"""Who may do what: keys, routes, pass-through, forwarded paths, sources and recorded exchanges."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import httpx
import openai
import pytest

from tests.acceptance.asking import BOTH, ask, body
from tests.acceptance.conftest import House
from tests.acceptance.settings import AUDIT_KEY, KEY, LIMITED_KEY, STAFF_KEY, UPSTREAM_KEY
from tests.servers.upstream import (
    Received,
    chat_events,
    completion,
    error_reply,
    head,
    json_reply,
    raw_reply,
    sse_reply,
)

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

CALLER_KEY = "sk-callers-own-key-0123456789abcdef"
NO_KEY: dict[str, str] = {"authorization": ""}


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


# -- keys --------------------------------------------------------------------------------------------------------------

PLACES = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/r/plain/v1/chat/completions"),
    ("POST", "/r/files/v1/embeddings"),
    ("GET", "/v1/exchanges"),
    ("GET", "/v1/exchanges/ex_1"),
    ("GET", "/v1/exchanges/ex_1/labels"),
    ("POST", "/v1/exchanges/ex_1/labels"),
    ("GET", "/v1/sources/x"),
    ("POST", "/v1/check"),
]


@pytest.mark.parametrize(("method", "path"), PLACES)
@pytest.mark.parametrize("headers", [NO_KEY, bearer("gg-wrong"), {"authorization": "Basic abc"}], ids=str)
async def test_nothing_is_served_without_a_valid_key(
    house: House, method: str, path: str, headers: dict[str, str]
) -> None:
    contents = {
        "/v1/check": {"answer": "x", "query": "y", "route": "held-block"},
        "/v1/exchanges/ex_1/labels": {"label": "true"},
    }
    content = contents.get(path, body())
    response = await house.http.request(method, path, json=content if method == "POST" else None, headers=headers)
    # An unknown caller is not told which routes there are.
    assert response.status_code in (401, 404)
    assert response.status_code == 401 or path.startswith("/r/")
    assert house.upstream.requests == []


async def test_the_sdk_raises_an_authentication_error_for_a_wrong_key(house: House) -> None:
    with pytest.raises(openai.AuthenticationError) as caught:
        await ask(house.client(key="gg-wrong-key"), stream=False)
    assert caught.value.code == "invalid_api_key"
    assert "gg-wrong-key" not in str(caught.value.body)


async def test_a_key_in_x_api_key_is_as_good(house: House) -> None:
    response = await house.http.post("/v1/chat/completions", json=body(), headers={**NO_KEY, "x-api-key": KEY})
    assert response.status_code == 200


@pytest.mark.parametrize("stream", BOTH)
async def test_a_key_reaches_its_own_routes_only(house: House, stream: bool) -> None:
    house.upstream.enqueue(sse_reply(chat_events("ok")) if stream else json_reply(completion("ok")))
    assert (await ask(house.client("plain", key=LIMITED_KEY), stream=stream)).text == "ok"
    with pytest.raises(openai.NotFoundError):
        await ask(house.client("grounded", key=LIMITED_KEY), stream=stream)
    assert len(house.upstream.requests) == 1
    # To this key the name of another route is a name like any other: it goes to the default route, undocumented.
    house.upstream.enqueue(sse_reply(chat_events("ok")) if stream else json_reply(completion("ok")))
    said = await ask(house.client(key=LIMITED_KEY), stream=stream, model="grounded")
    assert (said.grounding, (await house.record(said.exchange))["route"]) == (None, "plain")
    response = await house.http.post(
        "/v1/check", json={"route": "held-block", "query": "q", "answer": "a"}, headers=bearer(LIMITED_KEY)
    )
    assert response.status_code == 404


async def test_models_are_the_routes_that_the_key_may_use(house: House) -> None:
    models = [model.id async for model in house.client(key=LIMITED_KEY).models.list()]
    assert set(models) - {"through"} == {"plain", "files"}
    everything = [model.id async for model in house.openai.models.list()]
    assert {"plain", "grounded", "held-block"} <= set(everything)
    assert (await house.openai.models.retrieve("held-block")).object == "model"
    with pytest.raises(openai.NotFoundError):
        await house.client(key=LIMITED_KEY).models.retrieve("held-block")


# -- pass-through ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", BOTH)
async def test_on_a_passthrough_route_the_callers_key_reaches_the_upstream_and_ours_never(
    house: House, stream: bool
) -> None:
    house.upstream.enqueue(sse_reply(chat_events("ok")) if stream else json_reply(completion("ok")))
    said = await ask(house.client("through", key=CALLER_KEY), stream=stream)
    assert said.text == "ok"
    received = await house.upstream.request(0)
    assert received.headers["authorization"] == f"Bearer {CALLER_KEY}"
    assert UPSTREAM_KEY not in json.dumps(received.headers)
    record = await house.record(said.exchange)
    assert record["key_id"] is None
    assert "0123456789abcdef" not in json.dumps(record)


async def test_other_routes_never_send_the_callers_key_on(house: House) -> None:
    await ask(house.client("plain"), stream=False)
    received = await house.upstream.request(0)
    assert received.headers["authorization"] == f"Bearer {UPSTREAM_KEY}"
    assert KEY not in json.dumps(received.headers) + received.body.decode()


async def test_a_caller_of_the_passthrough_route_may_use_nothing_else(house: House) -> None:
    for path in ("/r/plain/v1/chat/completions", "/v1/exchanges", "/v1/sources/x"):
        method = "POST" if "chat" in path else "GET"
        response = await house.http.request(method, path, headers=bearer(CALLER_KEY))
        assert response.status_code in (401, 404)
    response = await house.http.post("/v1/chat/completions", json=body(), headers=bearer(CALLER_KEY))
    assert response.status_code in (401, 404)
    assert house.upstream.requests == []


async def test_no_key_is_ever_in_a_log_or_in_the_ledger(house: House, session_database: str) -> None:
    """BerriAI/litellm #20240, PR #32688: bearer tokens in the logs of guards, in spite of a privacy flag."""
    house.upstream.enqueue(error_reply(401, message=f"Incorrect API key provided: {UPSTREAM_KEY}"))
    refused = await house.http.post("/r/plain/v1/chat/completions", json=body())
    await house.record(refused.headers["x-grounding-exchange"])
    said = await ask(house.client("through", key=CALLER_KEY), stream=False, extra_headers={"x-api-key": CALLER_KEY})
    await house.record(said.exchange)
    connection = await asyncpg.connect(session_database)
    try:
        tables = [row[0] for row in await connection.fetch(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'ledger'"
        )]  # fmt: skip
        assert tables
        for table in tables:
            found = await connection.fetchval(
                f"SELECT count(*) FROM {table} t WHERE t::text LIKE ANY($1)",
                [f"%{key}%" for key in (KEY, LIMITED_KEY, CALLER_KEY, UPSTREAM_KEY)],
            )
            assert found == 0, table
    finally:
        await connection.close()
    output = house.gateway.output
    assert [key for key in (KEY, LIMITED_KEY, CALLER_KEY, UPSTREAM_KEY) if key in output] == []


# -- other paths -------------------------------------------------------------------------------------------------------


async def test_embeddings_are_forwarded_and_recorded_as_not_checked(house: House) -> None:
    vector = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}], "model": "e",
              "usage": {"prompt_tokens": 1, "total_tokens": 1}}  # fmt: skip
    house.upstream.enqueue(json_reply(vector))
    raw = await house.client("files").embeddings.with_raw_response.create(
        model="e", input="hi", encoding_format="float"
    )
    assert raw.parse().data[0].embedding == [0.5, 0.25]
    received = await house.upstream.request(0)
    assert (received.method, received.path) == ("POST", "/v1/embeddings")
    assert received.headers["authorization"] == f"Bearer {UPSTREAM_KEY}"
    record = await house.record(raw.headers["x-grounding-exchange"])
    assert (record["check_status"], record["check_reason"]) == ("not_checked", "unsupported_content")
    assert record["path"] == "/r/files/v1/embeddings"


async def test_a_file_upload_arrives_byte_for_byte(house: House) -> None:
    content = bytes(range(256)) * 2000
    uploaded = {"id": "file-1", "object": "file", "bytes": len(content), "created_at": 1, "filename": "a.bin",
                "purpose": "batch", "status": "processed"}  # fmt: skip
    house.upstream.enqueue(json_reply(uploaded))
    result = await house.client("files").files.create(file=("a.bin", content), purpose="batch")
    assert result.id == "file-1"
    received = await house.upstream.request(0)
    assert content in received.body
    assert received.headers["content-type"].startswith("multipart/form-data; boundary=")


async def test_a_binary_answer_a_query_and_an_encoded_path_survive(house: House) -> None:
    content = bytes(range(256)) * 300
    house.upstream.enqueue(json_reply(content, content_type="application/octet-stream"))
    response = await house.http.get("/r/files/v1/files/a%2Fb%20c/content?limit=2&after=x%26y")
    assert response.content == content
    assert (await house.upstream.request(0)).path == "/v1/files/a%2Fb%20c/content?limit=2&after=x%26y"
    house.upstream.enqueue(error_reply(404, message="no such file"))
    response = await house.http.delete("/r/files/v1/files/none")
    assert (response.status_code, response.json()["error"]["message"]) == (404, "no such file")
    assert (await house.upstream.request(1)).method == "DELETE"


CLIMBING = ["/r/files/v1/../admin", "/r/files/v1/%2e%2e/admin", "/r/files/v1/files/..%2f..%2fadmin"]


@pytest.mark.parametrize("path", CLIMBING)
async def test_no_path_climbs_out_of_the_upstreams_base(house: House, path: str) -> None:
    url = httpx.URL(house.base_url).copy_with(raw_path=path.encode())
    response = await house.http.get(url)
    assert response.status_code in (400, 404)
    assert house.upstream.requests == []


@pytest.mark.parametrize("key", [KEY, LIMITED_KEY])
@pytest.mark.parametrize("query", ["api_key={}", "x=1&key={}&y=2", "{}", "k=%67g{}"])
async def test_a_key_of_the_gateway_in_an_address_is_never_shown_to_the_upstream(
    house: House, query: str, key: str
) -> None:
    query = query.format(key[2:] if "%67" in query else key)
    response = await house.http.get(f"/r/files/v1/files?{query}")
    assert (response.status_code, response.json()["error"]["code"]) == (400, "key_in_query")
    assert house.upstream.requests == []


@pytest.mark.parametrize("method", ["TRACE", "CONNECT"])
async def test_the_upstreams_key_is_not_mirrored_to_a_client(house: House, method: str) -> None:
    response = await house.http.request(method, "/r/files/v1/files")
    assert (response.status_code, response.json()["error"]["code"]) == (400, "method_not_allowed")
    assert house.upstream.requests == []


@pytest.mark.parametrize("query", ["route=%00", "status=a%00", "key=%00", "model=%00", "cursor=%00"])
async def test_records_searched_for_with_what_is_no_text_are_a_mistake_of_the_caller(house: House, query: str) -> None:
    response = await house.http.get(f"/v1/exchanges?{query}")
    assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")
    assert (await house.http.get("/v1/exchanges/ex_%00")).status_code == 404


async def test_a_route_that_does_not_serve_a_path_says_so_and_forwards_nothing(house: House) -> None:
    """BerriAI/litellm #14152: other endpoints were served around the guards in silence."""
    for path in ("/embeddings", "/audio/speech", "/messages/batches"):
        response = await house.http.post(f"/r/held-block/v1{path}", json={"model": "m", "input": "hi"})
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "path_not_served"
        assert "other_paths" in response.json()["error"]["message"]
    assert house.upstream.requests == []


async def test_a_forwarded_answer_that_is_cut_is_not_a_whole_one(house: House) -> None:
    house.upstream.enqueue(json_reply({"object": "list", "data": ["x" * 3000]}, truncate=2000))
    with pytest.raises(httpx.RemoteProtocolError):
        await house.http.post("/r/files/v1/embeddings", json={"model": "e", "input": "hi"})


async def test_a_forwarded_stream_flows_as_it_comes(house: House) -> None:
    gate = asyncio.Event()
    house.upstream.enqueue(sse_reply(["one", "two"], gates={1: gate}))
    async with house.http.stream("POST", "/r/files/v1/responses", json={"model": "m", "stream": True}) as response:
        pieces = response.aiter_raw()
        assert await anext(pieces) == b"data: one\n\n"
        gate.set()
        assert b"".join([piece async for piece in pieces]) == b"data: two\n\ndata: [DONE]\n\n"


# -- checks of given answers -------------------------------------------------------------------------------------------


async def test_a_given_answer_is_checked_and_recorded_without_asking_a_model(house: House) -> None:
    """NVIDIA-NeMo/Guardrails #2014: a check without a generation."""
    answer = "The Falcon weighs 3 kg. Its wrong range is 90 km."
    for place, extra in (("/v1/check", {"route": "held-block"}), ("/r/held-block/v1/check", {})):
        response = await house.http.post(place, json={"query": "How heavy?", "answer": answer, **extra})
        assert response.status_code == 200
        result = response.json()
        assert (result["status"], result["route"]) == ("failed", "held-block")
        facts = result["grounding"]["checks"][0]["facts"]
        assert [fact["label"] for fact in facts] == ["true", "false"]
        assert facts[1]["text"] == "Its wrong range is 90 km."
        assert facts[1]["evidence"][0]["quote"]
        record = await house.record(result["id"])
        assert (record["check_status"], record["path"]) == ("failed", place)
    assert house.upstream.requests == []


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"query": "q", "route": "held-block"}, 400),
        ({"answer": "a", "route": "held-block"}, 400),
        ({"answer": "a", "query": "q", "route": "plain"}, 400),
        ({"answer": 7, "query": "q", "route": "held-block"}, 400),
        ({"answer": "a", "query": "q", "route": "none"}, 404),
        ({"answer": "a", "query": "q", "route": "held-block", "unknown": 1}, 400),
        ([], 400),
    ],
)
async def test_a_wrong_check_request_is_told_what_is_wrong(house: House, sent: Any, status: int) -> None:
    response = await house.http.post("/v1/check", json=sent)
    assert response.status_code == status
    assert response.json()["error"]["type"] == "invalid_request_error"


# -- sources -----------------------------------------------------------------------------------------------------------


async def test_the_link_of_a_citation_leads_to_the_passage(house: House) -> None:
    said = await ask(house.client("grounded"), stream=False)
    assert said.grounding is not None
    source = said.grounding["retrieval"]["sources"][0]
    response = await house.http.get(source["url"])
    assert response.status_code == 200
    found = response.json()
    assert "The Falcon drone weighs 3 kg" in found["text"]
    assert (found["document_id"], found["sha256"]) == (source["document_id"], source["sha256"])


async def test_a_source_is_shown_to_those_only_who_may_read_its_document(house: House) -> None:
    said = await ask(
        house.client("secrets", key=STAFF_KEY), stream=False, messages=[{"role": "user", "content": "captain earns"}]
    )
    assert said.grounding is not None
    (source,) = said.grounding["retrieval"]["sources"]
    sent = json.dumps((await house.upstream.request(0)).json)
    assert "90000" in sent
    assert (await house.http.get(source["url"], headers=bearer(STAFF_KEY))).status_code == 200
    for key in (KEY, LIMITED_KEY, "gg-unknown"):
        response = await house.http.get(source["url"], headers=bearer(key))
        assert response.status_code in (401, 404)
        assert "90000" not in response.text
    # Nor does anybody else's prompt get it.
    other = await ask(house.client("secrets"), stream=False, messages=[{"role": "user", "content": "captain earns"}])
    assert other.grounding is not None
    assert other.grounding["retrieval"] == {"status": "no_context", "sources": []}
    assert "90000" not in json.dumps((await house.upstream.request(1)).json)


# -- recorded exchanges ------------------------------------------------------------------------------------------------


async def test_a_label_is_kept_under_the_name_of_its_key_and_a_key_without_audit_gives_none(house: House) -> None:
    exchange = (await ask(house.client("held-annotate"), stream=False)).exchange
    await house.record(exchange)
    place = f"/v1/exchanges/{exchange}/labels"
    given = {"label": "false", "fact": 0, "comment": "it says 3 kg", "labeller": "ann"}
    response = await house.http.post(place, json=given)
    assert response.status_code == 201, response.text
    kept = response.json()
    assert (kept["labeller"], kept["label"], kept["current"], kept["new"]) == ("everything/ann", "false", True, True)
    listed = (await house.http.get(place)).json()["data"]
    assert [each["id"] for each in listed] == [kept["id"]]
    for key, status in ((LIMITED_KEY, 403), (AUDIT_KEY, 404)):
        assert (await house.http.post(place, json=given, headers=bearer(key))).status_code == status
        assert (await house.http.get(place, headers=bearer(key))).status_code == status
    for wrong in (
        {},
        {**given, "label": "maybe"},
        {**given, "fact": "first"},
        {**given, "key": "x"},
        {**given, "fact": -1},
    ):
        refused = await house.http.post(place, json=wrong)
        assert (refused.status_code, "error" in refused.json()) == (400, True), refused.text
    assert (await house.http.post(place, json={**given, "fact": 99})).status_code == 404
    assert (await house.http.post("/v1/exchanges/ex_%00/labels", json=given)).status_code == 404
    assert len((await house.http.get(place)).json()["data"]) == 1


async def test_recorded_exchanges_are_listed_filtered_and_paged(house: House) -> None:
    ids = []
    since = datetime.now(UTC).isoformat()
    for number in range(5):
        text = "The Falcon weighs 3 kg." if number % 2 else "Its wrong range is 90 km."
        house.upstream.enqueue(json_reply(completion(text)))
        said = await ask(house.client("held-annotate"), stream=False)
        ids.append(said.exchange)
        await house.record(said.exchange)
    listed: list[str] = []
    cursor: str | None = None
    while True:
        params: dict[str, Any] = {"route": "held-annotate", "since": since, "limit": 2}
        page = (await house.http.get("/v1/exchanges", params=params | ({"cursor": cursor} if cursor else {}))).json()
        listed += [item["id"] for item in page["data"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert listed == ids[::-1]
    failed = await house.http.get(
        "/v1/exchanges", params={"route": "held-annotate", "since": since, "status": "failed"}
    )
    assert [item["id"] for item in failed.json()["data"]] == ids[::-2]
    late = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert (await house.http.get("/v1/exchanges", params={"since": late})).json()["data"] == []
    for wrong in ({"cursor": "nonsense"}, {"limit": 0}, {"since": "yesterday"}):
        response = await house.http.get("/v1/exchanges", params=wrong)
        assert response.status_code == 400
        assert response.json()["error"]["message"]


async def test_the_record_shows_what_was_asked_found_sent_answered_and_judged(house: House) -> None:
    text = "The Falcon weighs 3 kg. Its wrong range is 90 km."
    house.upstream.enqueue(json_reply(completion(text)))
    said = await ask(house.client("grounded-checked"), stream=False)
    record = await house.record(said.exchange)
    assert "How heavy" in record["body"]["request"]
    assert "The Falcon drone weighs 3 kg" in record["body"]["sent"]
    assert record["body"]["answers"] == {"0": text}
    assert record["sources"][0]["document_id"] == "falcon.md"
    assert (record["retrieval_status"], record["check_status"]) == ("grounded", "failed")
    (check,) = record["checks"]
    assert [fact["label"] for fact in check["facts"]] == ["true", "false"]
    assert check["facts"][1]["evidence"][0]["label"] == "false"
    call = check["calls"][0]
    assert (call["judge"], call["model"], call["prompt_tokens"]) == ("wording", "judge-1", 100)
    assert record["config_version"]
    assert record["usage"]["total_tokens"] == 8
    assert set(record["seconds"]) >= {"retrieval", "upstream", "check", "total"}


async def test_records_are_read_with_an_audit_key_and_only_of_its_routes(house: House) -> None:
    plain = await ask(house.client("plain"), stream=False)
    other = await ask(house.client("held-annotate"), stream=False)
    await house.record(plain.exchange)
    await house.record(other.exchange)
    audit = bearer(AUDIT_KEY)
    assert (await house.http.get(f"/v1/exchanges/{plain.exchange}", headers=audit)).status_code == 200
    assert (await house.http.get(f"/v1/exchanges/{other.exchange}", headers=audit)).status_code == 404
    listed = (await house.http.get("/v1/exchanges", params={"limit": 500}, headers=audit)).json()["data"]
    assert {item["route"] for item in listed} == {"plain"}
    named = await house.http.get("/v1/exchanges", params={"route": "held-annotate"}, headers=audit)
    assert named.status_code != 200 or named.json()["data"] == []
    for path in ("/v1/exchanges", f"/v1/exchanges/{plain.exchange}"):
        response = await house.http.get(path, headers=bearer(LIMITED_KEY))
        assert (response.status_code, response.json()["error"]["code"]) == (403, "audit_not_allowed")


@pytest.mark.parametrize("stream", BOTH)
async def test_a_route_that_keeps_no_bodies_stores_no_word_of_them(house: House, stream: bool) -> None:
    for route in ("hashed", "dropped"):
        house.upstream.enqueue(
            sse_reply(chat_events("a confidential answer"))
            if stream
            else json_reply(completion("a confidential answer"))
        )
        said = await ask(
            house.client(route), stream=stream, messages=[{"role": "user", "content": "a confidential question"}]
        )
        assert said.text == "a confidential answer"
        assert "confidential" not in json.dumps(await house.record(said.exchange))
    assert "confidential" not in house.gateway.output


async def test_errors_of_the_upstream_are_not_asked_again_by_our_own_hand_on_forwarded_paths(house: House) -> None:
    """What goes through unread may have changed something there."""

    def vanish(_: Received) -> None:
        return None

    house.upstream.enqueue(raw_reply(vanish, head(500, [("content-length", "0")])))
    response = await house.http.post("/r/files/v1/batches", json={})
    assert response.status_code == 500
    assert len(house.upstream.requests) == 1


async def test_what_a_checked_route_forwards_unread_says_that_it_was_not_checked(house: House) -> None:
    """BerriAI/litellm #14152: guards that do not run on another endpoint, while the log says success."""
    house.upstream.enqueue(json_reply({"id": "modr-1", "model": "m", "results": []}))
    raw = await house.client("checked-files").moderations.with_raw_response.create(model="m", input="hi")
    assert raw.parse().results == []
    record = await house.record(raw.headers["x-grounding-exchange"])
    assert (record["check_status"], record["check_reason"]) == ("not_checked", "unsupported_content")


async def test_forwarded_paths_of_a_passthrough_route_carry_the_callers_key(house: House) -> None:
    house.upstream.enqueue(json_reply({"object": "list", "data": []}))
    response = await house.http.get("/r/through/v1/batches", headers=bearer(CALLER_KEY))
    assert response.status_code == 200
    received = await house.upstream.request(0)
    assert received.headers["authorization"] == f"Bearer {CALLER_KEY}"
    assert UPSTREAM_KEY not in json.dumps(received.headers)
