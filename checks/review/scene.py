"""What a panel of judges needs to know about one issue, whatever it comes from. Pure.

A `Scene` shows the issue's own code and finds the further file a judge asks for. Implementations: a repository at a
pinned commit (`checks.review.hops`), a text with nothing around it (here).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from checks.review.decide import Request
from checks.review.prompts import Exhibit, Matter
from checks.types import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A judge's request for a further file, word for word."""

    class_name: str = ""
    file_name: str = ""
    file_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a request led to. `how` says how the path was matched (`exact`, `suffix`, `definition`, `refused` ...),
    `candidates` which files came equally near; `exhibits` are the files to show: not those shown already. `reason` says
    why a judge gave no request."""

    request: Request
    matched: str | None = None
    how: str = "refused"
    candidates: tuple[str, ...] = ()
    note: str = ""
    exhibits: tuple[Exhibit, ...] = ()
    reason: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One judge's request for a further file and what became of it; hops count from 1."""

    hop: int
    judge: str
    asked: Asked | None
    found: Found

    def told(self) -> dict[str, Any]:
        """The keys of `CheckedIssue.hops`."""
        asked, found = self.asked, self.found
        return {
            "hop": self.hop,
            "judge": self.judge,
            "asked": None
            if asked is None
            else {"class_name": asked.class_name, "file_name": asked.file_name, "file_path": asked.file_path},
            "matched": found.matched,
            "how": found.how,
            "request": found.request.value,
            "candidates": list(found.candidates),
            "note": found.note,
        }


class Scene(Protocol):
    """One issue with the code around it."""

    @property
    def matter(self) -> Matter:
        """What the first step's prompt holds."""
        ...

    @property
    def listing(self) -> tuple[str, ...]:
        """Paths worth knowing when a judge asks for a file, at most some hundred; may be empty."""
        ...

    async def find(self, asked: Asked, shown: tuple[Exhibit, ...], hop: int) -> Found:
        """The file a judge asks for. Never raises for what does not exist or cannot be read: that is a refusal."""
        ...


@dataclass(frozen=True, slots=True)
class TextScene:
    """An issue about a text around which nothing is known: every request for a further file is refused."""

    matter: Matter

    @property
    def listing(self) -> tuple[str, ...]:
        return ()

    async def find(self, asked: Asked, shown: tuple[Exhibit, ...], hop: int) -> Found:
        return Found(request=Request.REFUSED, note="there is no repository to look into")
