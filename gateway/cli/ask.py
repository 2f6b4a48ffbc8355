"""`ask` and `check`: one question, or one given answer, through a route from the shell."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from gateway.app.inprocess import call
from gateway.cli.output import FAILED, emit, fail
from gateway.config.load import load

_MARKS = {"passed": "✓", "failed": "✗", "not_checked": "?"}


def ask(config_path: Path, question: str, *, route: str | None, key: str | None, as_json: bool) -> int:
    """Ask a route; exit code 1 when the answer was blocked or failed its check."""
    config = load(config_path, os.environ)
    body: dict[str, Any] = {"messages": [{"role": "user", "content": question}]}
    path = f"/r/{route}/v1/chat/completions" if route else "/v1/chat/completions"
    if not route:
        body["model"] = _default_route(config.routes)
    response = asyncio.run(call(config, config_path, path, body, key))
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
    response = asyncio.run(call(config, config_path, "/v1/check", body, key))
    reply = response.json()
    if response.status_code != 200:
        fail(str(reply.get("error", {}).get("message", response.text)))
    emit(reply, as_json=as_json, text="\n".join(_verdict(reply["grounding"])))
    return 0 if reply["status"] == "passed" else FAILED


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
    if grounding:
        lines.append(f"exchange {grounding['exchange_id']}")
    return lines
