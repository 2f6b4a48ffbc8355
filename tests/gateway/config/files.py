"""Configurations for tests, as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gateway.config.load import Reading, examine

MINIMAL = """\
upstreams:
  quotes: {kind: extractive}
  real: {kind: openai, base_url: "http://127.0.0.1:9/v1"}
collections:
  docs: {paths: [docs]}
judges:
  careful: {kind: openai, model: m}
routes:
  support:
    upstream: real
    model: m
    retrieval: {collections: [docs]}
    check: {kind: facts}
"""


def look(text: str, environ: Mapping[str, str] | None = None, path: str = "gateway.yaml") -> Reading:
    """What reading this text gives."""
    return examine(text, Path(path), environ or {})


def problems(text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """The lines shown for what is wrong with this text."""
    return [str(problem) for problem in look(text, environ).problems]


def with_route(lines: str) -> str:
    """The minimal configuration with a further route `r`; `lines` are indented by four spaces."""
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    return f"{MINIMAL}  r:\n{body}"
