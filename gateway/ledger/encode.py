"""Turns a record into the bytes that are stored: body policy applied, credentials removed, safe for Postgres.

The stored form is one JSON object per record. The spool keeps those bytes as they are and Postgres takes them apart, so
a record is encoded once and never decoded in this process. Knows nothing of SQLite or SQL. Pure: the key comes in.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from gateway.config.modes import BodyPolicy
from gateway.ledger.record import CheckRecord, ExchangeRecord, FactRecord, Opening, Outcome
from gateway.redact import redact_json

REPLACEMENT: Final = "\ufffd"
PROVISIONAL: Final = b"provisional "
_json = msgspec.json.Encoder(enc_hook=repr)
_record_decoder = msgspec.json.Decoder(ExchangeRecord)
_opening_decoder = msgspec.json.Decoder(Opening)


class _Key(msgspec.Struct):
    """What a stored record must still say after redaction."""

    id: str
    created_at: float


_key_decoder = msgspec.json.Decoder(_Key)


def encode_record(record: ExchangeRecord, *, hash_key: bytes, max_bytes: int) -> bytes:
    """The stored form of a record. A record over `max_bytes` loses its bodies, never its verdict."""
    (data,) = redacted_all([encode_unredacted(record, hash_key=hash_key, max_bytes=max_bytes)])
    return data


def encode_unredacted(record: ExchangeRecord, *, hash_key: bytes, max_bytes: int) -> bytes:
    """The same with credentials still in it, for `redacted_all`."""
    if record.body_policy is not BodyPolicy.KEEP:
        record = _without_bodies(record, hash_key)
    elif record.sent_body and record.sent_body == record.request_body:
        record = replace(record, sent_body="")
    data = _encode(record)
    if len(data) > max_bytes:
        data = _encode(_shortened(record, max_bytes))
    return data


def redacted_all(records: list[bytes]) -> list[bytes]:
    """Encoded records without credentials: one search over all of them, as nearly none holds any."""
    joined = records[0] if len(records) == 1 else b"\n".join(records)
    return records if redact_json(joined) is joined else [_redacted(data) for data in records]


def _redacted(data: bytes) -> bytes:
    redacted = redact_json(data)
    return data if redacted is data else _with_identity(redacted, _record_decoder.decode(data))


def encode_opening(opening: Opening) -> bytes:
    """The stored form of an opening."""
    data = _encode(opening)
    redacted = redact_json(data)
    if redacted is data:
        return data
    safe = _opening_decoder.decode(redacted)
    return _encode(replace(safe, id=opening.id, route=opening.route, key_id=opening.key_id))


def as_provisional(data: bytes) -> bytes:
    """A stored record as a line among openings."""
    return PROVISIONAL + data


def decode_unfinished(lines: bytes) -> Iterator[tuple[str, Opening | bytes]]:
    """Lines of openings back: (exchange, its opening or its provisional record as stored). Blank lines are skipped."""
    for line in lines.split(b"\n"):
        if line.startswith(PROVISIONAL):
            data = line[len(PROVISIONAL) :]
            yield decode_key(data)[1], data
        elif line.strip():
            opening = _opening_decoder.decode(line)
            yield opening.id, opening


def decode_key(data: bytes) -> tuple[float, str]:
    """(created_at, id) of a stored record."""
    key = _key_decoder.decode(data)
    return key.created_at, key.id


def split_array(joined: bytes) -> list[bytes]:
    """The stored records of a comma-joined group, apart again."""
    return [bytes(raw) for raw in msgspec.json.decode(b"[" + joined + b"]", type=list[msgspec.Raw])]


def interrupted(opening: Opening) -> ExchangeRecord:
    """The record of an exchange that was opened by a process which died before completing it. Its status is 0."""
    return ExchangeRecord(
        id=opening.id,
        created_at=opening.created_at,
        route=opening.route,
        path=opening.path,
        outcome=Outcome.INTERRUPTED,
        status=0,
        key_id=opening.key_id,
        request_id=opening.request_id,
        model=opening.model,
        stream=opening.stream,
    )


def _encode(value: msgspec.Struct) -> bytes:
    try:
        data = _json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, which has no UTF-8
        return _json.encode(_map_text(msgspec.to_builtins(value), _clean))
    if b"\\u0000" in data:  # Postgres text has no NUL
        return _json.encode(_map_text(msgspec.json.decode(data), _clean))
    return data


def _with_identity(redacted: bytes, record: ExchangeRecord) -> bytes:
    """Redaction must not touch what names a record: names of ours may look like a credential."""
    safe = _record_decoder.decode(redacted)
    if (safe.id, safe.route, safe.key_id) == (record.id, record.route, record.key_id):
        return redacted
    return _encode(replace(safe, id=record.id, route=record.route, key_id=record.key_id))


def _clean(text: str) -> str:
    text = text.replace("\x00", REPLACEMENT)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _map_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(str(key)): _map_text(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_map_text(item, change) for item in value]
    return value


def _without_bodies(record: ExchangeRecord, key: bytes) -> ExchangeRecord:
    """Bodies hashed or dropped, and every other place where the conversation's text stands.

    Documents seen as evidence stay: they are the operator's, and the verdict cannot be followed without them.
    """

    def hashed(text: str) -> str:
        return "hmac-sha256:" + hmac.digest(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hex()

    def dropped(_text: str) -> str:
        return ""

    change = hashed if record.body_policy is BodyPolicy.HASH else dropped

    def hide(text: str) -> str:
        return change(text) if text else text

    return replace(
        record,
        query=hide(record.query),
        request_body=hide(record.request_body),
        sent_body=hide(record.sent_body),
        answer_body=hide(record.answer_body),
        error_message=hide(record.error_message),
        retrieval_detail=hide(record.retrieval_detail),
        answer={choice: hide(text) for choice, text in record.answer.items()},
        checks=[_check_without_bodies(check, hide) for check in record.checks],
        attempts=[replace(attempt, error=hide(attempt.error)) for attempt in record.attempts],
    )


def _check_without_bodies(check: CheckRecord, hide: Callable[[str], str]) -> CheckRecord:
    def fact(fact: FactRecord) -> FactRecord:
        return replace(
            fact,
            text=hide(fact.text),
            questions=[hide(question) for question in fact.questions],
            detail=_map_values(fact.detail, hide),
        )

    return replace(
        check,
        detail=hide(check.detail),
        facts=[fact(each) for each in check.facts],
        calls=[
            replace(call, request=hide(call.request), reply=hide(call.reply), error=hide(call.error))
            for call in check.calls
        ],
    )


def _map_values(value: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """Like `_map_text`, keys left alone."""

    def walk(item: Any) -> Any:
        if isinstance(item, str):
            return change(item)
        if isinstance(item, dict):
            return {key: walk(inner) for key, inner in item.items()}
        if isinstance(item, list | tuple):
            return [walk(inner) for inner in item]
        return item

    return {key: walk(item) for key, item in value.items()}


def _shortened(record: ExchangeRecord, max_bytes: int) -> ExchangeRecord:
    """The largest texts replaced by a note of their length, until the rest fits in all likelihood."""
    room = max(max_bytes // 8, 256)

    def cut(text: str) -> str:
        return text if len(text) <= room else f"[{len(text)} characters, over the ledger's record limit]"

    return replace(
        record,
        request_body=cut(record.request_body),
        sent_body=cut(record.sent_body),
        answer_body=cut(record.answer_body),
        answer={choice: cut(text) for choice, text in record.answer.items()},
        checks=[
            replace(
                check,
                calls=[replace(call, request=cut(call.request), reply=cut(call.reply)) for call in check.calls],
            )
            for check in record.checks
        ],
    )
