"""Replies of judges that need not be paid for twice, keyed by all that decides them.

The key is a digest of the judge, its version and the whole prompt. The prompt holds the issue's text, the code shown as
it stands at the blob, the evidence and the rules, so a reply is reused exactly while all of these are the same, at
whatever commit; the files of a hop are matched anew against the tree in force. Knows no storage but memory: a store
that outlives the process implements `Replies`.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Protocol, runtime_checkable

from checks.types import JudgePrompt, JudgeReply


@runtime_checkable
class Replies(Protocol):
    """A store of judges' replies. Never raises: what cannot be read is not there, what cannot be kept is lost."""

    async def get(self, key: str) -> JudgeReply | None: ...

    async def put(self, key: str, reply: JudgeReply) -> None:
        """Keep a reply, also an unusable one: the store decides whether such a one is worth keeping."""
        ...


def reply_key(judge: str, version: str, prompt: JudgePrompt) -> str:
    """The key of one call: `version` tells apart the models that a judge's name has stood for."""
    digest = hashlib.sha256()
    for part in (judge, version, prompt.purpose, prompt.system, prompt.user):
        digest.update(f"{len(part)}\x1f".encode())
        digest.update(part.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


class MemoryReplies:
    """The `most` replies used last, in this process. Only usable replies are kept: a failed call is made again."""

    def __init__(self, most: int = 4_096) -> None:
        self._most = most
        self._kept: OrderedDict[str, JudgeReply] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, key: str) -> JudgeReply | None:
        reply = self._kept.get(key)
        if reply is not None:
            self._kept.move_to_end(key)
        return reply

    async def put(self, key: str, reply: JudgeReply) -> None:
        if reply.value is None or self._most < 1:
            return
        self._kept[key] = reply
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
