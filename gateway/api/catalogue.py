"""What a caller may use: models and cited passages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from litestar import Request, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from gateway.access.keys import Principal
from gateway.api.desk import GatewayDesk
from gateway.errors import NotFoundError

_REQUEST = Request[Any, Any, Any]


def catalogue_handlers(at_desk: Callable[[], GatewayDesk]) -> list[HTTPRouteHandler]:
    """Handlers of `/v1/models` and `/v1/sources`."""

    def caller(request: _REQUEST) -> Principal:
        return at_desk().runtime.keyring.identify(dict(request.headers))

    @get("/v1/models", sync_to_thread=False)
    def list_models(request: _REQUEST) -> dict[str, Any]:
        """The routes that the key may use, as models."""
        models = _models(at_desk(), caller(request))
        if "anthropic-version" in request.headers:
            return _model_page(models)
        return {"object": "list", "data": models}

    @get("/v1/models/{model:path}", sync_to_thread=False)
    def get_model(request: _REQUEST, model: FromPath[str]) -> dict[str, Any]:
        """One route as a model."""
        model = model.removeprefix("/")
        for item in _models(at_desk(), caller(request)):
            if item["id"] == model:
                return item
        raise NotFoundError(f"there is no model '{model[:100]}'", code="model_not_found", param="model")

    @get("/v1/sources/{passage_id:str}", sync_to_thread=True)
    def get_source(request: _REQUEST, passage_id: FromPath[str]) -> dict[str, Any]:
        """A cited passage as it is now, for callers who may use a route that reads its collection."""
        principal = caller(request)
        principal.require_known()
        runtime = at_desk().runtime
        names = [name for name in runtime.table.routes if principal.may_use(name)]
        passage = runtime.sources.passage(passage_id, names, principal.groups)
        if passage is None:
            raise NotFoundError(f"there is no source '{passage_id[:100]}', or this key may not read it")
        return {
            "object": "grounding.source",
            "passage_id": passage.id,
            "document_id": passage.document_id,
            "title": passage.title,
            "url": passage.url,
            "heading": list(passage.heading),
            "page": passage.page,
            "start": passage.start,
            "end": passage.end,
            "sha256": passage.sha256,
            "text": passage.text,
        }

    return [list_models, get_model, get_source]


def _models(desk: GatewayDesk, principal: Principal) -> list[dict[str, Any]]:
    return desk.runtime.table.models(principal, created=int(desk.started_at))


def _model_page(models: list[dict[str, Any]]) -> dict[str, Any]:
    """The list of models as Anthropic's clients read it."""
    data = [
        {
            "type": "model",
            "id": model["id"],
            "display_name": model["id"],
            "created_at": datetime.fromtimestamp(model["created"], UTC).isoformat(),
        }
        for model in models
    ]
    ids = [model["id"] for model in models] or [None]
    return {"data": data, "has_more": False, "first_id": ids[0], "last_id": ids[-1]}
