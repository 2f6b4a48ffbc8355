"""`verdicts list|show`: the ledger from the shell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from gateway.cli.ledger import with_store
from gateway.cli.output import emit
from gateway.ledger.store import ExchangeFilter, Page, PostgresStore


def list_verdicts(config_path: Path, filters: ExchangeFilter, *, limit: int, cursor: str | None, as_json: bool) -> int:
    """A page of exchanges, newest first."""

    async def read(store: PostgresStore) -> Page:
        return await store.list_exchanges(filters, cursor=cursor, limit=limit)

    page = with_store(config_path, read)
    rows = [_row(item) for item in page.items]
    header = ("exchange", "time", "route", "outcome", "check", "query")
    more = f"\nmore: --cursor {page.cursor}" if page.cursor else ""
    emit({"data": page.items, "next": page.cursor}, as_json=as_json, table=(header, rows), text=more)
    return 0


def show_verdict(config_path: Path, exchange_id: str, *, as_json: bool) -> int:
    """Everything that was recorded of one exchange."""

    async def read(store: PostgresStore) -> dict[str, Any]:
        return await store.get_exchange(exchange_id)

    found = with_store(config_path, read)
    whole = msgspec.json.format(msgspec.json.encode(found)).decode()
    rows = [row for check in found["checks"] for row in _issue_rows(check)]
    table = (("issue", "label", "action", "votes", "files", "cost USD", "title"), rows)
    emit(found, as_json=as_json, table=table if rows else None, text=whole)
    return 0


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    check = str(item.get("check_status", ""))
    if item.get("check_reason"):
        check = f"{check} ({item['check_reason']})"
    query = " ".join(str(item.get("query", "")).split())
    return (
        str(item["id"]),
        str(item.get("created_at", ""))[:19],
        str(item.get("route", "")),
        str(item.get("outcome", "")),
        check,
        query if len(query) <= 60 else query[:57] + "...",
    )


def _issue_rows(check: dict[str, Any]) -> list[tuple[str, ...]]:
    """A line per issue of a review: what was decided, by whom, over which files."""
    out: list[tuple[str, ...]] = []
    for fact in check.get("facts") or ():
        issue = fact.get("issue")
        if issue is None:
            continue
        line = f":{issue['start_line']}" if issue.get("start_line") else ""
        votes = [f"{vote['judge']}@{vote['hop']} {vote['label'] or 'abstains'}" for vote in issue.get("votes") or ()]
        cost = issue.get("cost_usd")
        out.append(
            (
                f"{issue.get('path') or '-'}{line}",
                str(fact.get("label") or fact.get("reason") or ""),
                str(issue.get("action", "")),
                ", ".join(votes),
                ", ".join(dict.fromkeys(str(file.get("path")) for file in issue.get("files") or ())),
                "" if cost is None else f"{cost:.4f}",
                str(fact.get("text", "")),
            )
        )
    return out
