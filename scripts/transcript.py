"""Asks a running gateway questions, one at a time, and prints what came back as Markdown.

    python scripts/transcript.py --base-url http://127.0.0.1:8080/v1 --questions FILE [--model docs] [--timeout 900]

FILE holds one question a line; empty lines and lines that begin with `#` are skipped. The status of each answer is
printed as the gateway gave it, errors included. Knows nothing of how the gateway answers or checks.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx


def main() -> int:
    """Print the transcript. Exit code 1 when a question had no answer, 3 when the gateway could not be reached."""
    parser = argparse.ArgumentParser(description="Ask a running gateway questions; print a transcript as Markdown.")
    parser.add_argument("--base-url", required=True, help="with the version path, e.g. http://127.0.0.1:8080/v1")
    parser.add_argument("--questions", required=True, type=Path, help="one question a line")
    parser.add_argument("--model", default="docs", help="the route's name (default: docs)")
    parser.add_argument("--key", default="none", help="a key, where the gateway has keys")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds per question (default: 900)")
    options = parser.parse_args()
    headers = {"authorization": f"Bearer {options.key}"}
    answered = True
    with httpx.Client(base_url=options.base_url, headers=headers, timeout=options.timeout) as client:
        for number, question in enumerate(read_questions(options.questions), start=1):
            body = {"model": options.model, "messages": [{"role": "user", "content": question}], "temperature": 0}
            begun = time.monotonic()
            try:
                response = client.post("chat/completions", json=body)
            except httpx.TransportError as error:
                print(f"{options.base_url} cannot be reached ({error}); is the gateway running?", file=sys.stderr)
                return 3
            answered = answered and response.is_success
            print("\n".join(section(number, question, response, time.monotonic() - begun)), flush=True)
    return 0 if answered else 1


def read_questions(path: Path) -> list[str]:
    """The questions of a file."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def section(number: int, question: str, response: httpx.Response, seconds: float) -> Iterator[str]:
    """One question as Markdown lines; `seconds` is how long the answer took."""
    yield f"## {number}. {question}"
    yield ""
    body = response.json()
    if response.is_success:
        yield from quoted(body["choices"][0]["message"].get("content") or "(no text)")
        grounding = body.get("grounding") or {}
    else:
        yield from quoted(f"(status {response.status_code}) {body['error']['message']}")
        grounding = body["error"].get("grounding") or {}
    yield ""
    yield from verdict(grounding, seconds)


def verdict(grounding: Mapping[str, Any], seconds: float) -> Iterator[str]:
    """The verdict, and each fact with its label and the sentence that decided."""
    retrieval = grounding.get("retrieval") or {"status": "unknown", "sources": []}
    sources = {source["number"]: source for source in retrieval["sources"]}
    best = max((source["score"] for source in retrieval["sources"]), default=None)
    checks = grounding.get("checks") or []
    status = " / ".join(check["status"] + (f" ({check['reason']})" if check["reason"] else "") for check in checks)
    best_text = f", best score {best:.2f}" if best is not None else ""
    yield f"**{status or 'no check'}** · retrieval {retrieval['status']}{best_text} · {seconds:.1f} s"
    yield ""
    for fact in (fact for check in checks for fact in check.get("facts", ())):
        label = fact["label"] or f"not checked ({fact.get('reason', 'unknown')})"
        yield f"- `{label}` {' '.join(fact['text'].split())}"
        for piece in fact["evidence"][:1]:
            title = sources.get(piece["source"], {}).get("title", "")
            quote = " ".join(piece["quote"].split())
            where = f"[{piece['source']}] {title}".rstrip()
            yield f"    - {piece['label']} {piece['probability']:.2f}, {where}: “{quote}”"
    yield ""


def quoted(text: str) -> Iterator[str]:
    """Text as a Markdown block quote."""
    for line in text.strip().splitlines():
        yield f"> {line}".rstrip()


if __name__ == "__main__":
    sys.exit(main())
