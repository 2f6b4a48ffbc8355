"""A file of judges' replies, to evaluate again without a model: JSON Lines, one reply a line, by the keys of the cache.

A cassette keeps what a judge said, unusable replies included, but no failed call: those say nothing about the judge.
Requests are not kept, their digest is the key; so a cassette holds no code of anybody, only what judges wrote about it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from checks.errors import CassetteError
from checks.types import JudgeCall, JudgePrompt, JudgeReply, Reason

_KEPT_CALL = (
    "judge",
    "model",
    "purpose",
    "reply",
    "prompt_tokens",
    "completion_tokens",
    "cost_usd",
    "seconds",
    "error",
)


class Cassette:
    """Replies from a file, and into it unless `read_only`. Open it as a context manager; reads the file at once.

    Raises `CassetteError` when a line is not one a cassette holds, and `OSError`.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        self._read_only = read_only
        self._replies: dict[str, JudgeReply] = {}
        self._sink: TextIO | None = None

    def __enter__(self) -> Cassette:
        if self._read_only or self._path.exists():
            with self._path.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        self._take(line, number)
        if not self._read_only:
            self._sink = self._path.open("a", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        if self._sink is not None:
            self._sink.close()
            self._sink = None

    def __len__(self) -> int:
        return len(self._replies)

    async def get(self, key: str) -> JudgeReply | None:
        return self._replies.get(key)

    async def put(self, key: str, reply: JudgeReply) -> None:
        if self._sink is None or reply.reason not in (None, Reason.JUDGE_REPLY_INVALID) or key in self._replies:
            return
        self._replies[key] = reply
        call = {name: getattr(reply.call, name) for name in _KEPT_CALL}
        reason = reply.reason.value if reply.reason is not None else None
        line = {"key": key, "value": reply.value, "reason": reason, "call": call}
        self._sink.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._sink.flush()

    def _take(self, line: str, number: int) -> None:
        try:
            kept = json.loads(line)
            reason = Reason(kept["reason"]) if kept["reason"] is not None else None
            call = JudgeCall(request="", **kept["call"])
            self._replies[str(kept["key"])] = JudgeReply(value=kept["value"], call=call, reason=reason)
        except (ValueError, KeyError, TypeError) as error:
            raise CassetteError(
                f"{self._path}:{number}: not a line of a cassette ({type(error).__name__}: {error})",
                hint="record it again, or remove the line",
            ) from error


class AbsentJudge:
    """Stands where only a cassette speaks: whatever is not on it, this judge cannot say."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def judge(self, prompt: JudgePrompt, schema: Mapping[str, Any]) -> JudgeReply:
        call = JudgeCall(self._name, "", prompt.purpose, "", "", error="not on the cassette")
        return JudgeReply(None, call, Reason.JUDGE_UNAVAILABLE)
