"""The one screen that `serve` shows: where the gateway is, what to paste, where the data lies, what is off and why."""

from __future__ import annotations

import sys
from pathlib import Path

from gateway.config.model import FactCheckConfig, GatewayConfig, HttpUpstreamConfig, RouteConfig
from gateway.config.pooling import described
from gateway.config.references import answering

# The quickstart's documents answer the first question, and refute the answer to the second in one plain sentence.
QUESTION = "What does the Monthly plan cost?"
CHECKED_QUESTION = "How old must a rider of the Pelican be?"
FALSE_ANSWER = "Riders of the Pelican must be at least 16 years old."


def banner(config: GatewayConfig, path: Path, port: int) -> str:
    """The screen as text. `path` is the configuration's, `port` the one that is listened on."""
    host = config.server.host if config.server.host not in {"0.0.0.0", "::"} else "localhost"  # noqa: S104
    scheme = "https" if config.server.tls else "http"
    base = config.server.public_url or f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    names = list(config.routes)
    default = next((name for name, route in config.routes.items() if route.default), names[0])
    checked = next((name for name, route in config.routes.items() if isinstance(route.check, FactCheckConfig)), None)
    key = "" if not _has_keys(config) else " -H 'authorization: Bearer YOUR_KEY'"
    lines = [
        "",
        f"Grounding Gateway   base URL  {base}/v1",
        "",
        "Routes (use as model name, or as base URL /r/<route>/v1)",
        *(f"  {name:<14}{_describe(route, config)}" for name, route in config.routes.items()),
        "",
        "Ask a question",
        f"  curl -s {base}/v1/chat/completions{key} -H 'content-type: application/json' \\",
        f"""    -d '{{"model": "{default}", "messages": [{{"role": "user", "content": "{QUESTION}"}}]}}'""",
        "",
        "From Python (pip install openai)",
        "  from openai import OpenAI",
        f'  client = OpenAI(base_url="{base}/v1", api_key="{"YOUR_KEY" if key else "none"}")',
        f'  question = [{{"role": "user", "content": "{QUESTION}"}}]',
        f'  print(client.chat.completions.create(model="{default}", messages=question).choices[0].message)',
        "",
    ]
    if checked:
        lines += [
            "Check a false answer: see it fail, with the evidence",
            f"  curl -s {base}/v1/check{key} -H 'content-type: application/json' \\",
            f"""    -d '{{"route": "{checked}", "query": "{CHECKED_QUESTION}", "answer": "{FALSE_ANSWER}"}}'""",
            "",
        ]
    lines += [
        f"Recorded verdicts   {base}/v1/exchanges",
        f"                    {_command()} verdicts list --config {path}",
        f"Metrics, health     {base}/metrics   {base}/readyz   {base}/schema",
        f"Data                {config.data_dir}"
        + ("" if config.ledger.database_url else "   (ledger: its own Postgres in there)"),
        *_off(config),
        "",
        "Ctrl-C stops everything that was started.",
        "",
    ]
    return "\n".join(lines)


def _command() -> str:
    """How this program was called, where that is its script; it may lie in a virtual environment off the path."""
    name = sys.argv[0]
    return name if name.endswith("grounding-gateway") else f"{sys.executable} -m gateway"


def _describe(route: RouteConfig, config: GatewayConfig) -> str:
    upstream = config.upstreams[route.upstream]
    target = upstream.base_url if isinstance(upstream, HttpUpstreamConfig) else described(upstream)
    parts = [f"{route.upstream} ({target})"]
    if route.retrieval:
        parts.append(f"grounded in {', '.join(route.retrieval.collections)}")
    if route.check:
        parts.append(f"checked ({route.release}, {route.action})")
    return ", ".join(parts) + ("   [default]" if route.default else "")


def _has_keys(config: GatewayConfig) -> bool:
    return bool(config.keys) or config.access.stored_keys


def _off(config: GatewayConfig) -> list[str]:
    """What is switched off, and why."""
    off = []
    if not any(isinstance(upstream, HttpUpstreamConfig) for upstream in _used(config)):
        off.append(
            "language model: none (set OPENAI_API_KEY, or UPSTREAM_BASE_URL for another server, and start again); "
            "answers are quotes from the documents"
        )
    if not config.judges:
        off.append("judge: none configured; the local classifier checks facts")
    if not _has_keys(config):
        off.append("API keys: none configured; only this machine can connect")
    if not config.server.tls:
        off.append("TLS: no certificate configured")
    return [f"Off                 {off[0]}", *(f"                    {line}" for line in off[1:])] if off else []


def _used(config: GatewayConfig) -> list[object]:
    return [section for route in config.routes.values() for section in answering(route, config.upstreams)]
