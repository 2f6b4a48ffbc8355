"""Checks across sections: names that refer to other sections, and settings that only fail together. Pure.

Works on the raw values, so that these problems show in the same run as any other. What has the wrong shape is skipped:
validation has already said so. Shows what the file says, never what a variable held.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.config.model import GatewayConfig, HttpUpstreamConfig, PoolUpstreamConfig, RouteConfig, UpstreamConfig
from gateway.config.pooling import pool_problems, pool_route_problems
from gateway.config.problems import Path, listed, suggestion
from gateway.config.source import Source
from gateway.redact import redact

Found = Iterator[tuple[Path, str]]

OPEN_TO_NETWORK = (
    "is reachable from other machines, and no keys are configured; loopback without keys is allowed only when bound to "
    "loopback: add `keys` (`grounding-gateway keys hash` makes one), or set host: 127.0.0.1"
)


def is_loopback(host: str) -> bool:
    """True for names and addresses that only this machine can reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def answering(route: RouteConfig, upstreams: Mapping[str, UpstreamConfig]) -> list[UpstreamConfig]:
    """The sections of those who may answer a route: its upstream, or the members of the pool that it is."""
    section = upstreams[route.upstream]
    if isinstance(section, PoolUpstreamConfig):
        return [upstreams[member.upstream] for member in section.members]
    return [section]


def open_to_network(config: GatewayConfig) -> bool:
    """True when anybody on the network could use a route that asks for keys, because there are none."""
    guarded = any(route.auth == "keys" for route in config.routes.values())
    keyless = not config.keys and not config.access.stored_keys
    return guarded and keyless and not is_loopback(config.server.host)


def reference_problems(source: Source) -> Found:
    """Paths and texts of everything that does not fit together."""
    data = source.data
    routes = _section(data, "routes")
    names = _Names(source)
    for name, route in routes.items():
        if isinstance(route, dict):
            path: Path = ("routes", name)
            check = _section(route, "check")
            yield from names.one(route, (*path, "upstream"), "upstreams")
            yield from names.one(route, (*path, "embeddings"), "collections")
            yield from names.all(_section(route, "retrieval"), (*path, "retrieval", "collections"), "collections")
            yield from names.all(check, (*path, "check", "collections"), "collections")
            yield from names.all(check, (*path, "check", "judges"), "judges")
            yield from names.all(check, (*path, "check", "repositories"), "repositories")
            for part in ("questions", "classifier"):
                yield from names.one(_section(check, part), (*path, "check", part, "judge"), "judges")
            yield from _thresholds_mean_something(route, path, _section(data, "collections"))
            yield from _costs(check, (*path, "check"), _section(data, "judges"))
            yield from _upstream_fits(route, path, _section(data, "upstreams"))
            yield from pool_route_problems(route, path, _section(data, "upstreams"))
    for name, upstream in _section(data, "upstreams").items():
        if isinstance(upstream, dict) and upstream.get("kind") == "pool":
            yield from _members(names, upstream, ("upstreams", name, "members"))
            yield from pool_problems(name, _section(data, "upstreams"))
    for index, key in enumerate(_list(data, "keys")):
        if isinstance(key, dict):
            yield from names.all(key, ("keys", index, "routes"), "routes", but="*")
            yield from _priced(key, ("keys", index, "budget", "usd"), _section(data, "prices"))
    yield from _default(routes)
    yield from _distinct_keys(data)
    yield from _exposure(source, routes)


def reference_warnings(config: GatewayConfig) -> Iterator[str]:
    """Settings that work and are probably not meant."""
    for name, route in config.routes.items():
        upstream = config.upstreams[route.upstream]
        if route.auth == "passthrough" and getattr(upstream, "api_key", None) is not None:
            yield (
                f"routes.{name}: auth: passthrough sends the caller's own key, so the api_key of upstream "
                f"{route.upstream} is not used here"
            )
        named = route.model or route.default or route.auth == "passthrough"
        if _needs_model(upstream, config) and not named:
            yield (
                f"routes.{name}: has no model, so requests at /v1 that name the route as their model are refused; set "
                f"routes.{name}.model, or use /r/{name}/v1 as base URL with the upstream's own model names"
            )
        if route.auth == "passthrough" and route.retrieval is not None and not is_loopback(config.server.host):
            yield (
                f"routes.{name}: with auth: passthrough anybody who reaches {config.server.host} can ask for what "
                "stands in its collections; use keys if the documents are not public"
            )


def _needs_model(upstream: UpstreamConfig, config: GatewayConfig) -> bool:
    if isinstance(upstream, PoolUpstreamConfig):
        unnamed = (config.upstreams[member.upstream] for member in upstream.members if member.model is None)
        return any(isinstance(section, HttpUpstreamConfig) for section in unnamed)
    return isinstance(upstream, HttpUpstreamConfig)


def _section(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else []


def _members(names: _Names, pool: Mapping[str, Any], path: Path) -> Found:
    for index, member in enumerate(_list(pool, "members")):
        if isinstance(member, dict):
            yield from names.one(member, (*path, index, "upstream"), "upstreams")


class _Names:
    """Checks names against the sections they refer to."""

    _KINDS: Final = {
        "upstreams": "an upstream",
        "collections": "a collection",
        "judges": "a judge",
        "repositories": "a repository",
        "routes": "a route",
    }

    def __init__(self, source: Source) -> None:
        self._source = source

    def one(self, section: Mapping[str, Any], path: Path, group: str) -> Found:
        """The name under the last key of `path`."""
        yield from self._known(section.get(str(path[-1])), path, group, "")

    def all(self, section: Mapping[str, Any], path: Path, group: str, but: str = "") -> Found:
        """Every name of the list under the last key of `path`, `but` one that always stands."""
        for index, word in enumerate(_list(section, str(path[-1]))):
            yield from self._known(word, (*path, index), group, but)

    def _known(self, word: Any, path: Path, group: str, but: str) -> Found:
        known = _section(self._source.data, group)
        if not isinstance(word, str) or word in known or word == but:
            return
        text = f"names {self._KINDS[group]} `{redact(self._source.written.get(path, word))}`, "
        if not known:
            yield path, f"{text}but {group} is empty; add it there"
        else:
            also = f"; `{but}` stands for all" if but else ""
            yield path, f"{text}which is not configured{suggestion(word, known)}; known: {listed(known)}{also}"


def _priced(key: Mapping[str, Any], path: Path, prices: Mapping[str, Any]) -> Found:
    """A budget of money needs to know what everything costs."""
    if _section(key, "budget").get("usd") is not None and "*" not in prices:
        yield (
            path,
            'needs the price of every model: add prices: {"*": {prompt: ..., completion: ...}} for those without one '
            "of their own, or limit tokens",
        )


def _costs(check: Mapping[str, Any], path: Path, judges: Mapping[str, Any]) -> Found:
    """A cap on costs needs to know what things cost."""
    if check.get("max_cost_usd") is None:
        return
    for name in _list(check, "judges"):
        judge = judges.get(name) if isinstance(name, str) else None
        if isinstance(judge, dict) and (judge.get("input_price") is None or judge.get("output_price") is None):
            yield (
                (*path, "max_cost_usd"),
                f"needs the prices of every judge, and `{name}` has none; add judges.{name}.input_price and "
                "output_price (USD per million tokens), or drop the cap",
            )


def _upstream_fits(route: Mapping[str, Any], path: Path, upstreams: Mapping[str, Any]) -> Found:
    """An extractive upstream has no documents, keys or other paths of its own."""
    name = route.get("upstream")
    upstream = upstreams.get(name) if isinstance(name, str) else None
    if not isinstance(upstream, dict) or upstream.get("kind") != "extractive":
        return
    if not route.get("retrieval"):
        yield (
            (*path, "upstream"),
            f"`{name}` answers from retrieved passages, and this route retrieves none; "
            "add retrieval: {collections: [...]}, or use an upstream of kind openai",
        )
    if route.get("auth") == "passthrough":
        yield (
            (*path, "auth"),
            f"passthrough needs an upstream that checks the caller's key, and `{name}` (kind extractive) has none; "
            "use auth: keys, or an upstream of kind openai",
        )
    if route.get("other_paths") == "forward":
        yield (
            (*path, "other_paths"),
            f"`{name}` (kind extractive) has nowhere to forward to; use other_paths: refuse, or an upstream of kind "
            "openai",
        )


def _thresholds_mean_something(route: Mapping[str, Any], path: Path, collections: Mapping[str, Any]) -> Found:
    """A fused rank says nothing of how well a passage fits, so no threshold may be compared with it."""
    retrieval = _section(route, "retrieval")
    if retrieval.get("min_score", 0.25) in (0, 0.0, "0"):
        return
    for name in _list(retrieval, "collections"):
        if isinstance(name, str) and _section(_section(collections, name), "search").get("fusion") == "rrf":
            yield (
                (*path, "retrieval", "min_score"),
                f"collection `{name}` fuses by rank (search.fusion: rrf), so scores say nothing; set min_score: 0, or "
                "use fusion: calibrated",
            )


def _default(routes: Mapping[str, Any]) -> Found:
    defaults = [name for name, route in routes.items() if isinstance(route, dict) and _is_true(route.get("default"))]
    for name in defaults[1:]:
        yield ("routes", name, "default"), f"`{defaults[0]}` is the default route already; keep one"


def _is_true(value: Any) -> bool:
    """True as validation will read it; an expanded variable is a text."""
    return value is True or (isinstance(value, str) and value.lower() in ("true", "yes", "on", "1", "t", "y"))


def _distinct_keys(data: Mapping[str, Any]) -> Found:
    seen: dict[tuple[str, str], int] = {}
    for index, key in enumerate(_list(data, "keys")):
        for field in ("id", "sha256"):
            value = key.get(field) if isinstance(key, dict) else None
            if isinstance(value, str) and seen.setdefault((field, value), index) != index:
                text = f"is the same as that of keys[{seen[field, value]}]; each key stands once"
                yield ("keys", index, field), text


def _exposure(source: Source, routes: Mapping[str, Any]) -> Found:
    host = _section(source.data, "server").get("host")
    guarded = any(isinstance(route, dict) and route.get("auth", "keys") == "keys" for route in routes.values())
    keyless = not _list(source.data, "keys") and not _is_true(_section(source.data, "access").get("stored_keys"))
    if isinstance(host, str) and not is_loopback(host) and guarded and keyless:
        shown = redact(source.written.get(("server", "host"), host)) or "an empty host"
        yield ("server", "host"), f"{shown} {OPEN_TO_NETWORK}"
