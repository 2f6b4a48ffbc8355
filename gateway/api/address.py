"""Where a request is addressed: `/r/<route>/v1/...` is the same as `/v1/...` with a route named.

Clients made for Azure say `/openai/deployments/<name>/...`, which is `/v1/...` with `<name>` as the model, or
`/openai/v1/...`. The framework's router only ever sees `/v1/...`: its plain handlers cannot carry path parameters.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from litestar import Litestar
from litestar.types import Receive, Scope, Send

from gateway.errors import NotFoundError

_ROUTE: Final = "grounding_gateway.route"
_PATH: Final = "grounding_gateway.path"
_DEPLOYMENT: Final = "grounding_gateway.deployment"
_AZURE: Final = "/openai/"


class AddressedApp(Litestar):
    """An application whose handlers find the route of the address in `route_of` and the whole of it in `path_of`.

    Paths in `direct` go straight to their handler: the framework's way there (its state, its exception handlers, its
    router) takes as long as a tenth of relaying an answer.
    """

    direct: Mapping[str, Callable[[Any, Any, Any], Awaitable[None]]] = MappingProxyType({})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            path = scope[_PATH] = scope["path"]
            if path.startswith("/r/"):
                route, _, rest = path[3:].partition("/")
                if route and rest.startswith(("v1/", "openai/")):
                    scope[_ROUTE] = route
                    path = scope["path"] = f"/{rest}"
            if path.startswith(_AZURE):
                path = scope["path"] = _from_azure(scope, path)
            handler = self.direct.get(path)
            if handler is not None:
                await handler(scope, receive, send)
                return
        await super().__call__(cast("Scope", scope), cast("Receive", receive), cast("Send", send))


def route_of(scope: Any) -> str | None:
    """The route that the address names, or None."""
    return cast("str | None", scope.get(_ROUTE))


def deployment_of(scope: Any) -> str | None:
    """The deployment that an address in Azure's style names, or None; it stands for the request's model."""
    return cast("str | None", scope.get(_DEPLOYMENT))


def path_of(scope: Any) -> str:
    """The whole path as the client sent it, decoded."""
    return cast("str", scope.get(_PATH, scope["path"]))


def path_below_v1(scope: Any) -> str:
    """What follows `/v1` in the path, still encoded, as an upstream is to get it. Raises `NotFoundError`."""
    raw = scope["raw_path"].decode("latin-1")
    if route_of(scope) is not None:
        _, _, raw = raw.removeprefix("/r/").partition("/")
        raw = f"/{raw}"
    if raw.startswith(_AZURE):
        raw = _from_azure({}, raw)
    if not raw.startswith("/v1/"):
        raise NotFoundError(f"there is nothing at {path_of(scope)[:200]}")
    return str(raw[3:])


def _from_azure(scope: dict[str, Any], path: str) -> str:
    """A path in Azure's style as one below `/v1`; the name of its deployment goes into the scope."""
    rest = path.removeprefix(_AZURE)
    if rest.startswith("v1/"):
        return f"/{rest}"
    place, _, rest = rest.partition("/")
    name, _, rest = rest.partition("/")
    if place != "deployments" or not name or not rest:
        return path
    scope[_DEPLOYMENT] = name
    return f"/v1/{rest}"
