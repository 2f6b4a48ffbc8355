"""`ask` and `check`: one question, or one given answer, through a route from the shell."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.app.collections import collection_directory, used_collections
from gateway.app.inprocess import call
from gateway.app.serving import open_database
from gateway.cli.collections import ingest_collections
from gateway.cli.output import FAILED, emit, fail
from gateway.config.load import load
from gateway.telemetry import log
from migrations.run import migrate

if TYPE_CHECKING:
    import httpx

    from gateway.config.model import GatewayConfig

_MARKS = {"passed": "✓", "failed": "✗", "not_checked": "?"}


def ask(config_path: Path, question: str, *, route: str | None, key: str | None, as_json: bool) -> int:
    """Ask a route; exit code 1 when the answer was blocked or failed its check."""
    config = load(config_path, os.environ)
    body: dict[str, Any] = {"messages": [{"role": "user", "content": question}]}
    path = f"/r/{route}/v1/chat/completions" if route else "/v1/chat/completions"
    if not route:
        body["model"] = _default_route(config.routes)
    response = _call(config, config_path, path, body, key)
    reply = response.json()
    if response.status_code not in {200, 422}:
        fail(str(reply.get("error", {}).get("message", response.text)))
    grounding = reply.get("grounding") or reply.get("error", {}).get("grounding") or {}
    text = reply["choices"][0]["message"]["content"] if response.status_code == 200 else reply["error"]["message"]
    emit(reply, as_json=as_json, text="\n".join([text or "", "", *_verdict(grounding)]))
    return FAILED if _status(grounding) == "failed" or response.status_code == 422 else 0


def check(config_path: Path, answer: str, *, query: str, route: str | None, key: str | None, as_json: bool) -> int:
    """Check a given answer; exit code 1 unless it passed."""
    config = load(config_path, os.environ)
    body = {"answer": answer, "query": query, "route": route or _checked_route(config.routes)}
    response = _call(config, config_path, "/v1/check", body, key)
    reply = response.json()
    if response.status_code != 200:
        fail(str(reply.get("error", {}).get("message", response.text)))
    emit(reply, as_json=as_json, text="\n".join(_verdict(reply["grounding"])))
    return 0 if reply["status"] == "passed" else FAILED


def _call(config: GatewayConfig, config_path: Path, path: str, body: dict[str, Any], key: str | None) -> httpx.Response:
    # The one exchange is shown as the command's output: of the log only what went wrong is for the reader.
    log.configure(config.server.log_format, "warning")
    missing = [name for name in used_collections(config) if not collection_directory(config, name).exists()]
    if missing:
        ingest_collections(config, missing)
    return asyncio.run(_call_prepared(config, config_path, path, body, key))


async def _call_prepared(
    config: GatewayConfig, config_path: Path, path: str, body: dict[str, Any], key: str | None
) -> httpx.Response:
    async with AsyncExitStack() as stack:
        if config.ledger.database_url is None:  # our own is ours to set up, another is its owner's (`migrate`)
            database, _ = await open_database(config, stack)
            await migrate(database)
        return await call(config, config_path, path, body, key)


def _default_route(routes: Any) -> str:
    return next((str(name) for name, route in routes.items() if route.default), str(next(iter(routes))))


def _checked_route(routes: Any) -> str:
    default = _default_route(routes)
    if routes[default].check is not None:
        return default
    return next((str(name) for name, route in routes.items() if route.check is not None), default)


def _status(grounding: dict[str, Any]) -> str:
    statuses = [check["status"] for check in grounding.get("checks", [])]
    return next((status for status in ("failed", "not_checked", "passed") if status in statuses), "not_checked")


def _verdict(grounding: dict[str, Any]) -> list[str]:
    """The verdict for a person: each fact with its label and the sentence that decided."""
    sources = {source["number"]: source for source in grounding.get("retrieval", {}).get("sources", [])}
    lines: list[str] = []
    for checked in grounding.get("checks", []):
        reason = f" ({checked['reason']})" if checked["reason"] else ""
        lines.append(f"{_MARKS[checked['status']]} {checked['kind']}: {checked['status']}{reason}")
        for fact in checked.get("facts", []):
            lines.append(f"  [{fact['label'] or fact.get('reason')}] {' '.join(fact['text'].split())}")
            for evidence in fact["evidence"][:1]:
                source = sources.get(evidence["source"], {})
                quote = " ".join(evidence["quote"].split())
                lines.append(
                    f"      {source.get('title', '')}: {quote}" if quote else f"      {source.get('title', '')}"
                )
        lines += [_issue(issue) for issue in checked.get("issues", [])]
    if grounding:
        lines.append(f"exchange {grounding['exchange_id']}")
    return lines


def _issue(issue: dict[str, Any]) -> str:
    line = f":{issue['start_line']}" if issue["start_line"] else ""
    title = " ".join(issue["title"].split())
    return (
        f"  [{issue['label'] or issue.get('reason')}, {issue['action']}] {issue['path'] or '-'}{line} {title}".rstrip()
    )
