"""A compiled route, and the table that selects one by path or by model name. Pure.

Knows what a request may ask of a route; knows nothing of HTTP, upstreams or checks. Callers are seen through `Caller`
only: a route that a caller may not use is, in every answer, a route that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gateway.config.model import (
    AnthropicUpstreamConfig,
    ExtractiveUpstreamConfig,
    GatewayConfig,
    HttpUpstreamConfig,
    PoolUpstreamConfig,
    ResponsesUpstreamConfig,
    ReviewCheckConfig,
    RouteConfig,
    UpstreamConfig,
)
from gateway.config.modes import Action, Release
from gateway.errors import NotFoundError, PermissionDeniedError, RequestError
from gateway.wire.types import GroundingOptions

_REASONING: Final = (AnthropicUpstreamConfig, ResponsesUpstreamConfig)
OWNER: Final = "grounding-gateway"


class Caller(Protocol):
    """Who asks."""

    def may_use(self, route: str, *, passthrough: bool = False) -> bool: ...

    def require_known(self) -> None:
        """Raises `AuthenticationError` for a caller who has shown no valid key."""
        ...


@dataclass(frozen=True, slots=True)
class Effective:
    """How one request is served: by the route's own modes, or as it asked. `shadow`: checked for the ledger only."""

    release: Release
    action: Action
    check: bool = True
    shadow: bool = False


_OFF: Final = Effective(release=Release.LIVE, action=Action.ANNOTATE, check=False)
_SHADOW: Final = Effective(release=Release.DETACHED, action=Action.ANNOTATE, shadow=True)
_NO_OPTIONS: Final = GroundingOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route with everything worked out that a request would otherwise work out again.

    `own` is how it serves a request that asks for nothing; `needs_model` says that its upstream cannot do without a
    model name.
    """

    name: str
    config: RouteConfig
    upstream: str
    model: str | None
    client_model: bool
    own: Effective
    grounds: bool
    checks: bool
    passthrough: bool
    forwards: bool
    default: bool
    needs_model: bool
    speaks_messages: bool = False
    """Its upstream speaks Anthropic's Messages API."""
    takes_reasoning: bool = False
    """Its upstream takes back the reasoning that it signed or encrypted."""

    @property
    def passes_unread(self) -> bool:
        """Whether requests of OpenAI's other dialects go to the upstream as they are: nothing is done with them."""
        return self.forwards and not self.grounds and not self.checks and not self.speaks_messages

    def effective(self, options: GroundingOptions) -> Effective:
        """How a request with these options is served.

        Raises `PermissionDeniedError` for an option that the route does not allow, and `RequestError` for options
        that cannot go together.
        """
        if options is _NO_OPTIONS or options == _NO_OPTIONS:
            return self.own
        self._permit_repository(options)
        self._permit_filters(options.filters)
        check = None if options.check in (None, "on") else self._permitted_check(options.check)
        if check is None and self.own.shadow:
            check = self.own
        release = self._permitted_release(options.release)
        if check is None:
            return Effective(release=release, action=self.own.action) if release is not self.own.release else self.own
        if options.release is not None and options.release != check.release.value:
            raise RequestError(
                f"grounding.check: {options.check or 'shadow'} is served with release: {check.release}; leave "
                "grounding.release out, or the check on",
                code="conflicting_options",
                param="grounding.release",
            )
        return check

    def upstream_model(self, asked: str | None) -> str | None:
        """The model name to send upstream; None leaves the request's own.

        Raises `RequestError` when the request names the route as its model and the route has no model of its own.
        """
        own_name = bool(asked) and asked != self.name
        if self.model is not None and not (self.client_model and own_name):
            return self.model
        if asked == self.name and self.needs_model:
            raise RequestError(
                f"the route '{self.name}' has no model of its own to stand for that name; ask for one of the "
                f"upstream's models at /r/{self.name}/v1, or set routes.{self.name}.model",
                code="model_required",
                param="model",
            )
        return None

    def _permitted_release(self, asked: str | None) -> Release:
        if asked is None or asked == self.own.release.value:
            return self.own.release
        # Configuration has refused every release here that cannot go with the route's action.
        allowed = self.config.request_options.release
        for release in allowed:
            if release.value == asked:
                return release
        raise self._denied("release", asked, [release.value for release in allowed])

    def _permitted_check(self, asked: str | None) -> Effective:
        allowed: tuple[str, ...] = self.config.request_options.check
        if asked not in allowed:
            raise self._denied("check", str(asked), list(allowed))
        return _OFF if asked == "off" else _SHADOW

    def _permit_filters(self, filters: Mapping[str, str] | None) -> None:
        if not filters:
            return
        if not self.config.request_options.filters:
            raise self._denied("filters", "", [])
        fixed = self.config.retrieval.filters if self.config.retrieval else {}
        for key, value in filters.items():
            if fixed.get(key, value) != value:
                raise RequestError(
                    f"grounding.filters.{key} is fixed by the route '{self.name}'; leave it out",
                    code="conflicting_options",
                    param="grounding.filters",
                )

    def _permit_repository(self, options: GroundingOptions) -> None:
        """Which repositories there are is the check's to know: for it one that is not the route's is not there."""
        if self.config.names_repositories:
            return
        for name in ("repository", "revision", "base_revision"):
            if getattr(options, name) is not None:
                raise self._denied(name, "", [])

    def _denied(self, option: str, asked: str, allowed: list[str]) -> PermissionDeniedError:
        setting = "repository" if option in ("revision", "base_revision") else option
        what = f"grounding.{option}: {asked}" if asked else f"grounding.{option}"
        also = f" (it allows: {', '.join(allowed)})" if allowed else ""
        return PermissionDeniedError(
            f"the route '{self.name}' does not allow {what}{also}; "
            f"routes.{self.name}.request_options.{setting} in the gateway's configuration decides",
            code="option_not_allowed",
            param=f"grounding.{option}",
        )


def compile_route(name: str, config: RouteConfig, upstreams: Mapping[str, UpstreamConfig]) -> Route:
    """The route of one section of the configuration, over those of all upstreams."""
    upstream = upstreams.get(config.upstream)
    answering = [(upstream, config.model)]
    if isinstance(upstream, PoolUpstreamConfig):
        answering = [(upstreams.get(member.upstream), member.model) for member in upstream.members]
    return Route(
        name=name,
        config=config,
        upstream=config.upstream,
        # An extractive upstream has no models: naming one would put another's name to its answers.
        model=None if isinstance(upstream, ExtractiveUpstreamConfig) else config.model,
        client_model=config.client_model,
        own=_SHADOW if _only_records(config) else Effective(release=config.release, action=config.action),
        grounds=config.retrieval is not None,
        checks=config.check is not None,
        passthrough=config.auth == "passthrough",
        forwards=config.other_paths == "forward",
        default=config.default,
        needs_model=any(isinstance(one, HttpUpstreamConfig) and model is None for one, model in answering),
        # Of a pool all must: what only Anthropic's API can say could not be asked of the others.
        takes_reasoning=any(isinstance(one, _REASONING) for one, _ in answering),
        speaks_messages=all(isinstance(one, AnthropicUpstreamConfig) for one, _ in answering),
    )


def _only_records(config: RouteConfig) -> bool:
    return isinstance(config.check, ReviewCheckConfig) and config.check.shadow


class RouteTable:
    """All routes of a configuration."""

    def __init__(self, config: GatewayConfig) -> None:
        self._routes = {name: compile_route(name, route, config.upstreams) for name, route in config.routes.items()}
        self._default = next((route for route in self._routes.values() if route.default), None)

    @property
    def routes(self) -> Mapping[str, Route]:
        """Every route by name, in the configuration's order."""
        return self._routes

    def by_path(self, name: str, caller: Caller) -> Route:
        """The route of `/r/<name>/v1`. Raises `AuthenticationError` or `NotFoundError`."""
        route = self._usable(name, caller)
        if route is not None:
            return route
        caller.require_known()
        raise NotFoundError(f"there is no route '{_cut(name)}'; {self._offer(caller)}", code="route_not_found")

    def by_model(self, model: str | None, caller: Caller) -> Route:
        """The route of a request at `/v1`: the one its model names, else the default route.

        Raises `AuthenticationError`, `NotFoundError`, or `RequestError` when the request names no model at all.
        """
        route = self._usable(model, caller) if model else None
        if route is None and self._default is not None:
            route = self._usable(self._default.name, caller)
        if route is not None:
            return route
        caller.require_known()
        if not model:
            raise RequestError(f"model is missing; {self._offer(caller)}", code="missing_parameter", param="model")
        raise NotFoundError(
            f"there is no model '{_cut(model)}'; {self._offer(caller)}", code="model_not_found", param="model"
        )

    def models(self, caller: Caller, *, created: int) -> list[dict[str, Any]]:
        """The routes that a caller may use, as model objects; `created` is in seconds since the epoch."""
        names = self._names(caller)
        if not names:
            caller.require_known()
        return [{"id": name, "object": "model", "created": created, "owned_by": OWNER} for name in names]

    def _usable(self, name: str, caller: Caller) -> Route | None:
        route = self._routes.get(name)
        if route is not None and caller.may_use(name, passthrough=route.passthrough):
            return route
        return None

    def _names(self, caller: Caller) -> list[str]:
        return [name for name in self._routes if self._usable(name, caller)]

    def _offer(self, caller: Caller) -> str:
        names = self._names(caller)
        return f"this key may use: {', '.join(names)}" if names else "this key may use no route"


def _cut(name: str) -> str:
    """A name from a request, short enough to say back."""
    return name if len(name) <= 100 else f"{name[:100]}..."
