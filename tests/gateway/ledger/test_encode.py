"""What is stored of a record: no credentials, no bodies where they are not wanted, nothing Postgres refuses."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.modes import BodyPolicy
from gateway.ledger.encode import (
    as_provisional,
    decode_key,
    decode_unfinished,
    encode_opening,
    encode_record,
    interrupted,
    split_array,
)
from gateway.ledger.record import ExchangeRecord, Opening

from .records import opening, plain_record, rich_record

KEY = b"k" * 32
SECRET = "sk-proj-abcDEF1234567890abcDEF"
NAMES = {"id", "route", "key_id"}  # ours, never the client's


def encode(record: ExchangeRecord, max_bytes: int = 1 << 24) -> bytes:
    return encode_record(record, hash_key=KEY, max_bytes=max_bytes)


def with_secret_everywhere(value: Any, *, top: bool = True) -> Any:
    """Every text of a record's builtins form, with a credential in it."""
    if isinstance(value, str):
        return f"{value} {SECRET} Authorization: Bearer hunter2hunter2"
    if isinstance(value, dict):
        keep = NAMES | {"outcome", "body_policy"} if top else set()
        return {k: v if k in keep else with_secret_everywhere(v, top=False) for k, v in value.items()}
    if isinstance(value, list):
        return [with_secret_everywhere(each, top=False) for each in value]
    return value


def test_no_field_of_a_record_keeps_a_bearer_token_or_a_key() -> None:
    """BerriAI/litellm #20240: bearer tokens in guard logs."""
    plain = with_secret_everywhere(msgspec.to_builtins(rich_record("x1")))
    assert json.dumps(plain).count(SECRET) >= 60
    record = msgspec.convert(plain, ExchangeRecord)
    stored = encode(record)
    assert SECRET.encode() not in stored
    assert b"hunter2" not in stored
    assert msgspec.json.decode(stored, type=ExchangeRecord).id == "x1"


def test_no_field_of_an_opening_keeps_a_key() -> None:
    stored = encode_opening(opening("x1", model=SECRET, path=f"/{SECRET}", request_id=f"Bearer {SECRET}"))
    assert SECRET.encode() not in stored


def test_names_of_ours_survive_though_they_look_like_keys() -> None:
    name = "gg-0123456789abcdef0123"
    record = plain_record(name, key_id=name, route=name, query=SECRET)
    kept = msgspec.json.decode(encode(record), type=ExchangeRecord)
    assert (kept.id, kept.key_id, kept.route) == (name, name, name)
    assert SECRET not in kept.query
    kept_opening = dict(decode_unfinished(encode_opening(opening(name, route=name, path=SECRET))))
    assert set(kept_opening) == {name}


@pytest.mark.parametrize("policy", [BodyPolicy.HASH, BodyPolicy.DROP])
def test_a_private_route_keeps_no_word_of_the_conversation(policy: BodyPolicy) -> None:
    """BerriAI/litellm PR #32688: the prompt in guard logs despite the privacy flag."""
    word = "Zanzibar"
    record = rich_record("x1", body_policy=policy)
    changes = dict.fromkeys(
        ("query", "request_body", "sent_body", "answer_body", "error_message", "retrieval_detail"), word
    )
    fact = msgspec.structs.replace(
        record.checks[0].facts[0], text=word, questions=[word], detail={"title": word, "votes": [{"why": word}]}
    )
    call = msgspec.structs.replace(record.checks[0].calls[0], request=word, reply=word, error=word)
    check = msgspec.structs.replace(record.checks[0], facts=[fact], calls=[call], detail=word)
    attempt = msgspec.structs.replace(record.attempts[0], error=word)
    record = msgspec.structs.replace(record, **changes, answer={"0": word}, checks=[check], attempts=[attempt])
    stored = encode(record)
    assert word.encode() not in stored
    kept = msgspec.json.decode(stored, type=ExchangeRecord)
    assert kept.checks[0].facts[0].label == "false"
    assert kept.sources == record.sources
    hashed = policy is BodyPolicy.HASH
    assert kept.query.startswith("hmac-sha256:") == hashed
    assert kept.query == kept.request_body == kept.checks[0].calls[0].reply
    assert bool(kept.query) == hashed
    if hashed:
        other = msgspec.json.decode(encode_record(record, hash_key=b"o" * 32, max_bytes=1 << 20), type=ExchangeRecord)
        assert other.query != kept.query


def test_a_giant_record_keeps_its_verdict_and_loses_its_bodies() -> None:
    record = rich_record("x1", request_body="a" * 500_000, answer={"0": "b" * 500_000})
    stored = encode(record, max_bytes=100_000)
    assert len(stored) < 100_000
    kept = msgspec.json.decode(stored, type=ExchangeRecord)
    assert kept.request_body == "[500000 characters, over the ledger's record limit]"
    assert kept.checks == record.checks


@given(st.text(st.characters(), max_size=40), st.text(st.characters(categories=["Cs", "Cc", "L"]), max_size=20))
def test_any_text_becomes_something_postgres_takes(text: str, odd: str) -> None:
    record = plain_record("x1", query=text + odd, answer={"0": odd}, usage={odd: text, "n": [odd, 1.5, None]})
    stored = encode(record)
    stored.decode()
    assert b"\\u0000" not in stored.replace(b"\\\\", b"")
    kept = msgspec.json.decode(stored, type=ExchangeRecord)
    if odd.isalpha() and SECRET not in text and "\x00" not in text:
        assert kept.answer == {"0": odd.encode("utf-16", "surrogatepass").decode("utf-16", "replace")}


def test_a_value_of_a_foreign_type_does_not_cost_the_record() -> None:
    stored = encode(plain_record("x1", usage={"when": object(), "s": {1}}))
    assert decode_key(stored)[1] == "x1"


def test_records_of_a_group_come_apart_again() -> None:
    each = [encode(rich_record(f"x{n}")) for n in range(3)]
    assert split_array(b",".join(each)) == each


def test_the_latest_word_on_an_unfinished_exchange_counts() -> None:
    first, record = opening("x1"), encode(plain_record("x1"))
    lines = b"\n".join([encode_opening(first), encode_opening(opening("x2")), b"   ", as_provisional(record)])
    found = dict(decode_unfinished(lines))
    assert found["x1"] == record
    assert isinstance(found["x2"], Opening)


def test_an_interrupted_record_says_what_is_known() -> None:
    start = opening("x1", key_id="k", model="m", stream=True, request_id="r")
    record = interrupted(start)
    for name in start.__struct_fields__:
        assert getattr(record, name) == getattr(start, name)
    assert (record.outcome.value, record.check_status) == ("interrupted", "not_checked")
