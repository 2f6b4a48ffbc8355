"""Tool calls in pieces, told apart as `gateway.wire.fold` does it, for writers that hand them on as they come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.wire.loose import loose_int


class Call:
    """One call so far; `custom` says that its arguments are free text."""

    __slots__ = ("arguments", "call_id", "custom", "name")

    def __init__(self) -> None:
        self.call_id = ""
        self.name = ""
        self.custom = False
        self.arguments: list[str] = []


class Calls:
    """The calls of one choice, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[Call] = []
        self._places: dict[int, int] = {}

    def take(self, piece: Mapping[str, Any]) -> tuple[int, Call, str]:
        """Take a piece in: (place of its call, the call, the arguments that it adds)."""
        place = self._place(piece)
        call = self.all[place]
        call.call_id = call.call_id or str(piece.get("id") or "")
        custom = piece.get("custom")
        call.custom = call.custom or isinstance(custom, dict)
        body = custom if isinstance(custom, dict) else piece.get("function")
        body = body if isinstance(body, dict) else {}
        name = body.get("name") or ""
        if name and name != call.name:
            call.name += name
        arguments = body.get("input" if call.custom else "arguments") or ""
        if arguments:
            call.arguments.append(arguments)
        return place, call, arguments

    def _place(self, piece: Mapping[str, Any]) -> int:
        """Some servers leave the index out, or stuck at 0."""
        index = loose_int(piece.get("index"))
        identity = str(piece.get("id") or "")
        if index is None:
            known = [place for place, call in enumerate(self.all) if identity and call.call_id == identity]
            if known:
                return known[0]
            return self._new() if identity or not self.all else len(self.all) - 1
        place = self._places.get(index)
        named = any(isinstance(piece.get(kind), dict) and piece[kind].get("name") for kind in ("function", "custom"))
        stuck = place is not None and identity and named and self.all[place].call_id not in ("", identity)
        if place is None or stuck:
            place = self._places[index] = self._new()
        return place

    def _new(self) -> int:
        self.all.append(Call())
        return len(self.all) - 1
