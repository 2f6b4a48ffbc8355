"""What stands around a gateway that checks reviews: a small git repository, and judges that read issues by their words.

A judge says of an issue with `phantom` Hallucination, with `elsewhere` Undetermined until it sees a second file, and
Valid Issue of anything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pygit2
from aiohttp import web

FILES = {
    "src/shop/basket.py": (
        '"""Baskets."""\n\nfrom shop.prices import price_of\n\n\nclass Basket:\n    def total(self) -> int:\n'
        "        return sum(price_of(item) for item in self.items)\n"
    ),
    "src/shop/prices.py": (
        '"""Prices."""\n\n\ndef price_of(item: str) -> int:\n    if item not in TABLE:\n        return 0\n'
        "    return TABLE[item]\n"
    ),
    "AGENTS.md": "Prices are whole cents.\n",
}
_ISSUE = re.compile(r"<<<ISSUE \w+\n(.*?)\nISSUE \w+>>>", re.DOTALL)
_FILE = re.compile(r"<<<FILE \w+\nfile (\S+)")


def make_repository(folder: Path) -> str:
    """A repository with one commit; its id."""
    repository = pygit2.init_repository(folder)
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    repository.index.add_all()
    repository.index.write()
    person = pygit2.Signature("A", "a@example.com", 1_700_000_000, 0)
    tree = repository.index.write_tree()
    return str(repository.create_commit("refs/heads/main", person, person, "first", tree, []))


class IssueJudge:
    """Its address, and the issues it was asked about with the files it was shown."""

    def __init__(self) -> None:
        self.base_url = ""
        self.asked: list[tuple[str, str, tuple[str, ...]]] = []

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        data = str(body["messages"][-1]["content"])
        found = _ISSUE.search(data)
        assert found is not None
        issue, files = found[1], tuple(_FILE.findall(data))
        self.asked.append((body["model"], issue, files))
        if "Name the further file" in data:
            reply = {"class_name": "", "file_name": "prices.py", "file_path": "src/prices.py"}
        else:
            reply = _evaluation(issue, files)
        return web.json_response(_completion(json.dumps(reply)))


def _evaluation(issue: str, files: tuple[str, ...]) -> dict[str, Any]:
    word = "Valid Issue"
    if "elsewhere" in issue:
        word = "Undetermined" if len(files) < 2 else "Hallucination"
    if "phantom" in issue:
        word = "Hallucination"
    reply: dict[str, Any] = {}
    for number in (1, 2, 3):
        reply |= {f"question_{number}": "Is it there?", f"answer_{number}": "It is as it is."}
    return {**reply, "quotes": [], "absent": [], "evaluation": word, "evaluation_reason": f"because {word}"}


def _completion(content: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    return {
        "id": "j1",
        "object": "chat.completion",
        "created": 1,
        "model": "judge-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
    }


@asynccontextmanager
async def issue_judge() -> AsyncGenerator[IssueJudge, None]:
    """Serve it on a free port of the loopback interface."""
    judge = IssueJudge()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", judge._answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    judge.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield judge
    finally:
        await runner.cleanup()


def review_house(folder: Path, *, upstream: str, judge: str, database: str, repository: Path) -> dict[str, Any]:
    """A gateway with the judges `one`, `two` and one that is away, and a route for each way to review."""
    priced = {"kind": "openai", "api_key": "none", "attempts": 1, "input_price": 1.0, "output_price": 2.0}
    check = {"kind": "code_review", "judges": ["one", "two"], "repositories": ["shop"]}
    held = {"upstream": "main", "release": "held", "action": "filter"}
    return {
        "data_dir": str(folder / "data"),
        "server": {"port": 0, "log_format": "json", "secret": "of-the-acceptance-tests"},
        "upstreams": {"main": {"kind": "openai", "base_url": upstream, "api_key": "none", "retries": {"attempts": 1}}},
        "judges": {
            "one": {**priced, "model": "judge-1", "base_url": judge},
            "two": {**priced, "model": "judge-2", "base_url": judge},
            "away": {**priced, "model": "judge-3", "base_url": "http://127.0.0.1:9/v1"},
        },
        "repositories": {"shop": {"path": str(repository)}},
        "routes": {
            "review": {**held, "check": check, "request_options": {"check": ["off", "shadow"]}},
            "marked": {**held, "check": check, "action": "annotate"},
            "live": {**held, "check": check, "action": "annotate", "release": "live"},
            "shadow": {**held, "check": {**check, "shadow": True}},
            "lame": {**held, "check": {**check, "judges": ["one", "away"]}},
            "blind": {**held, "check": {**check, "judges": ["away", "one"], "variant": "and"}},
            "carried": {**held, "check": {**check, "repositories": []}},
        },
        "ledger": {"database_url": database},
    }
