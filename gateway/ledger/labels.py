"""People's labels in the ledger: kept, read, queued for labelling, and samples of facts to be labelled.

A label is appended, never changed: the newest of a labeller on a fact counts. Knows the words a label may be, not who
may give one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec
from sqlalchemy import text
from uuid_utils import uuid7

from checks.types import FACT_LABELS, IssueLabel
from gateway.errors import NotFoundError, RequestError
from gateway.ledger import statements
from gateway.ledger.store import PostgresStore, no_exchange, plain

LABELS: Final = (*FACT_LABELS, *IssueLabel)
LONGEST_TEXT: Final = 10_000
LONGEST_NAME: Final = 200
_PAGE: Final = 500
_EARLIEST: Final = datetime(1, 1, 2, tzinfo=UTC)
QueueOrder = Literal["uncertain", "disagreement", "random"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A person's word on a fact or issue (`fact`), or on the whole answer. `source` says what it rests on.

    The check is the one at position `check` of the record, or else the last one of `choice`. With an `id` of one's own
    a label can be sent again without effect.
    """

    exchange_id: str
    label: str
    labeller: str
    source: str = ""
    comment: str = ""
    choice: int = 0
    check: int | None = None
    fact: int | None = None
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which exchanges: of a route, from `since` (inclusive) to `until` (exclusive); None does not restrict."""

    route: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def values(self) -> dict[str, Any]:
        return {"route": self.route, "since": self.since, "until": self.until}


@dataclass(frozen=True, slots=True)
class Place:
    """A fact: its exchange, the position of its check there, and its own."""

    exchange_id: str
    check: int
    fact: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """A fact of a sample with its verdict; `size` counts the facts of its stratum (its status and label)."""

    place: Place
    choice: int
    kind: str
    status: str
    label: str
    size: int


class Labels:
    """Labels over a store. Everything raises `LedgerUnavailableError` while the database is away."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def add(self, label: Label, *, routes: tuple[str, ...] | None = None) -> dict[str, Any]:
        """Keep a label and return it as stored, with `new` false when this very label was there already.

        `routes` are those whose exchanges the labeller may see. Raises `RequestError`, `NotFoundError`.
        """
        _require_fitting(label)
        created_at, check = await self._place(label, routes)
        values = {
            "created_at": created_at,
            "exchange_id": plain(label.exchange_id),
            "id": label.id or f"lb_{uuid7().hex}",
            "check_position": check,
            "fact_position": label.fact,
            "label": str(label.label),
            "source": plain(label.source),
            "comment": plain(label.comment),
            "labeller": plain(label.labeller),
        }
        new = await self._store.execute(text(statements.INSERT_LABEL), values)
        kept = {row["id"]: row for row in await self._of(values["exchange_id"], created_at)}[values["id"]]
        told = (kept["label"], kept["fact"], kept["source"], kept["comment"], kept["labeller"])
        if not new and told != tuple(
            values[key] for key in ("label", "fact_position", "source", "comment", "labeller")
        ):
            raise RequestError(
                f"the id {label.id!r} is that of another label; leave it out, or take a new one",
                code="label_id_taken",
                param="id",
            )
        return {**kept, "new": bool(new)}

    async def _place(self, label: Label, routes: tuple[str, ...] | None) -> tuple[datetime, int | None]:
        """When the exchange was, and the position of the labelled check. Raises when the label does not fit there."""
        values = {
            "id": plain(label.exchange_id),
            "check": label.check,
            "choice": label.choice,
            "fact": label.fact,
        }
        rows = await self._store.rows(text(statements.LABEL_PLACE), values)
        if not rows or (routes is not None and rows[0][1] not in routes):
            raise no_exchange(label.exchange_id)
        created_at, _, check, kind, has_fact = rows[0]
        if check is None and (label.check is not None or label.fact is not None or label.choice):
            what = f"check {label.check}" if label.check is not None else f"check of choice {label.choice}"
            raise NotFoundError(f"exchange {label.exchange_id} has no {what}", code="check_not_found")
        if label.fact is not None and not has_fact:
            raise NotFoundError(
                f"check {check} of exchange {label.exchange_id} has no fact {label.fact}", code="fact_not_found"
            )
        fitting: tuple[str, ...] = tuple(IssueLabel) if kind == "code_review" else FACT_LABELS
        if label.label not in fitting:
            noun = "an issue of a review" if kind == "code_review" else "a fact"
            raise RequestError(
                f"{label.label!r} is no label for {noun}; use one of {', '.join(fitting)}",
                code="invalid_label",
                param="label",
            )
        return created_at, check

    async def of(self, exchange_id: str, *, routes: tuple[str, ...] | None = None) -> list[dict[str, Any]]:
        """All labels on an exchange, oldest first; `current` tells which count. Raises `NotFoundError`."""
        values = {"id": plain(exchange_id), "check": None, "choice": 0, "fact": None}
        rows = await self._store.rows(text(statements.LABEL_PLACE), values)
        if not rows or (routes is not None and rows[0][1] not in routes):
            raise no_exchange(exchange_id)
        return await self._of(values["id"], rows[0][0])

    async def _of(self, exchange_id: Any, created_at: datetime) -> list[dict[str, Any]]:
        rows = await self._store.rows(text(statements.LABELS_OF), {"id": exchange_id, "created_at": created_at})
        return [msgspec.json.decode(row[0]) for row in rows]

    async def current(self, span: Span) -> list[dict[str, Any]]:
        """The label of every labeller on every fact and answer, with the verdict it is about."""
        rows = await self._store.rows(text(statements.CURRENT_LABELS), span.values())
        return [msgspec.json.decode(row[0]) for row in rows]

    async def queue(
        self, span: Span, labeller: str, *, order: QueueOrder = "uncertain", seed: int = 0, limit: int = 50
    ) -> list[Place]:
        """Facts that this labeller has not labelled yet and whose words are kept, in an order.

        `uncertain`: whose score is nearest to 0.5. `disagreement`: about which people differ, then where a person
        differs from the verdict, then judges or passages among themselves. `random`: by the seed.
        """
        statement = statements.LABEL_QUEUE.replace("{order}", statements.QUEUE_ORDERS[order])
        values = {**span.values(), "labeller": plain(labeller), "seed": str(seed), "limit": limit}
        return [Place(*row) for row in await self._store.rows(text(statement), values)]

    async def draw(self, span: Span, *, count: int, seed: int) -> list[Drawn]:
        """Up to `count` facts with a verdict from each stratum, in the seed's order."""
        values = {**span.values(), "count": count, "seed": str(seed)}
        rows = await self._store.rows(text(statements.DRAW_SAMPLE), values)
        return [Drawn(Place(row[0], row[1], row[2]), *row[3:]) for row in rows]

    async def replayable(self, span: Span) -> AsyncIterator[list[Mapping[str, Any]]]:
        """Checks of facts on a route's delivered answers, with every passage's probabilities, page by page."""
        after: tuple[datetime, str, int] = (_EARLIEST, "", -1)
        while True:
            values = {
                **span.values(),
                "after_time": after[0],
                "after_id": after[1],
                "after_check": after[2],
                "limit": _PAGE,
            }
            rows = await self._store.rows(text(statements.REPLAY), values)
            if rows:
                yield [msgspec.json.decode(row[0]) for row in rows]
            if len(rows) < _PAGE:
                return
            after = (rows[-1][1], rows[-1][2], rows[-1][3])


def _require_fitting(label: Label) -> None:
    if label.label not in LABELS:
        raise RequestError(
            f"no such label: {label.label!r}; use one of {', '.join(LABELS)}", code="invalid_label", param="label"
        )
    for name, value, longest in (
        ("labeller", label.labeller, LONGEST_NAME),
        ("id", label.id, LONGEST_NAME),
        ("source", label.source, LONGEST_TEXT),
        ("comment", label.comment, LONGEST_TEXT),
    ):
        if len(value) > longest:
            raise RequestError(
                f"'{name}' has {len(value)} characters; up to {longest} are kept", code="too_long", param=name
            )
    if not label.labeller.strip():
        raise RequestError("a label needs a labeller: say who gives it", code="no_labeller", param="labeller")
    if "\x00" in label.id:
        raise RequestError("'id' holds a NUL character; leave it out", code="invalid_value", param="id")
    for name, number in (("choice", label.choice), ("check", label.check), ("fact", label.fact)):
        if number is not None and not 0 <= number < 2**31:
            raise RequestError(f"'{name}' is a position, counted from 0", code="invalid_value", param=name)
