"""What does not fit together about pools of upstreams, on the raw values. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.config.backends import PoolUpstreamConfig, UpstreamConfig
from gateway.config.problems import Path

Found = Iterator[tuple[Path, str]]


def described(upstream: UpstreamConfig) -> str:
    """In a few words what an upstream is; of a pool who gets which share, and who stands in."""
    if not isinstance(upstream, PoolUpstreamConfig):
        return upstream.kind
    levels = []
    for priority in sorted({member.priority for member in upstream.members}):
        members = [member for member in upstream.members if member.priority == priority]
        whole = sum(member.weight for member in members)
        shares = [f"{member.upstream} {100 * member.weight / whole:.0f}%" for member in members]
        levels.append(", ".join(shares) if len(members) > 1 else members[0].upstream)
    return f"pool of {'; then '.join(levels)}"


def pool_problems(name: str, upstreams: Mapping[str, Any]) -> Found:
    """Members of one pool that cannot be members."""
    seen: set[str] = set()
    lasts = [_priority(member) for member in _members(upstreams, name) if _kind(upstreams, member) == "extractive"]
    for index, member in enumerate(_members(upstreams, name)):
        path: Path = ("upstreams", name, "members", index, "upstream")
        word = member.get("upstream")
        kind = _kind(upstreams, member)
        if not isinstance(word, str):
            continue
        if kind == "pool":
            yield path, f"`{word}` is a pool, and pools are no members of pools; name its members here"
        if word in seen:
            yield path, f"`{word}` is a member already; give the one entry a larger weight"
        seen.add(word)
        if kind == "extractive" and member.get("model") is not None:
            yield (*path[:-1], "model"), f"`{word}` (kind extractive) has no models; leave it out"
        elif kind != "extractive" and lasts and _priority(member) >= min(lasts):
            yield (
                path,
                f"`{word}` is never asked before the extractive member, which always answers; give it a smaller "
                "priority, and the extractive one the largest",
            )


def pool_route_problems(route: Mapping[str, Any], path: Path, upstreams: Mapping[str, Any]) -> Found:
    """What a route cannot want of the pool that is its upstream."""
    name = route.get("upstream")
    if not isinstance(name, str) or not isinstance(upstreams.get(name), dict):
        return
    if upstreams[name].get("kind") != "pool":
        return
    if route.get("auth") == "passthrough":
        yield (
            (*path, "auth"),
            f"passthrough would show the caller's own key to every member of the pool `{name}`; use auth: keys, or one "
            "upstream",
        )
    members = _members(upstreams, name)
    extractive = [member["upstream"] for member in members if _kind(upstreams, member) == "extractive"]
    if extractive and not route.get("retrieval"):
        yield (
            (*path, "upstream"),
            f"`{extractive[0]}`, a member of `{name}`, answers from retrieved passages, and this route retrieves none; "
            "add retrieval: {collections: [...]}, or take it out of the pool",
        )
    if extractive and len(extractive) == len(members) and route.get("other_paths") == "forward":
        yield (
            (*path, "other_paths"),
            f"`{name}` has extractive members only, which have nowhere to forward to; use other_paths: refuse",
        )


def _members(upstreams: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The members of a pool that have the shape of one."""
    section = upstreams.get(name)
    members = section.get("members") if isinstance(section, dict) else None
    return [member for member in members if isinstance(member, dict)] if isinstance(members, list) else []


def _kind(upstreams: Mapping[str, Any], member: Mapping[str, Any]) -> str | None:
    word = member.get("upstream")
    section = upstreams.get(word) if isinstance(word, str) else None
    kind = section.get("kind") if isinstance(section, dict) else None
    return kind if isinstance(kind, str) else None


def _priority(member: Mapping[str, Any]) -> int:
    value = member.get("priority", 0)
    return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdigit()) else 0
