"""The first half of the path: a query from the conversation, hits for it, and the prompt with their passages in it."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from gateway import prompt
from gateway.config.model import Policy, RetrievalConfig
from gateway.errors import RetrievalFailedError
from gateway.exchange.parts import Call, RouteParts, Services
from gateway.wire.types import ChatRequest, Turn
from retrieval.errors import RetrievalError
from retrieval.types import Hit, RetrievalStatus, Scope


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What retrieval gave: status, the query it ran, the hits in the prompt, and the grounded request."""

    status: RetrievalStatus
    request: ChatRequest
    query: str = ""
    hits: tuple[Hit, ...] = ()
    detail: str = ""
    refusal: RetrievalFailedError | None = None
    """Set where retrieval failed and the route does not answer without documents."""


def scope_of(
    config: Mapping[str, str], collections: tuple[str, ...], call: Call, asked: Mapping[str, str] | None, k: int | None
) -> Scope:
    """The scope of a search: the route's filters always hold, a request's can only narrow."""
    return Scope(
        collections=collections,
        filters={**(asked or {}), **config},
        groups=call.groups,
        k=k,
    )


async def retrieve(
    parts: RouteParts, request: ChatRequest, turns: list[Turn], call: Call, services: Services
) -> Retrieval:
    """Search and ground. A failure is told in the result, never raised."""
    config = parts.config.retrieval
    if config is None or parts.retriever is None:
        return Retrieval(RetrievalStatus.OFF, request)
    query = prompt.retrieval_query(turns)
    if not query:
        return Retrieval(RetrievalStatus.NO_CONTEXT, request, detail="the conversation has no user text to search for")
    started = services.clock()
    scope = scope_of(config.filters, config.collections, call, request.options.filters, config.k)
    try:
        async with asyncio.timeout(min(config.timeout, request.options.timeout or config.timeout)):
            found = await parts.retriever.retrieve(query, scope)
    except (RetrievalError, TimeoutError) as error:
        return _failed(parts, request, query, error, services)
    finally:
        services.observer.stage(parts.name, "retrieval", services.clock() - started)
    hits = tuple(hit for hit in found.hits if hit.score >= config.min_score)
    if not hits:
        return Retrieval(RetrievalStatus.NO_CONTEXT, request, query, detail=found.detail)
    grounded = _ground(parts, config, request, hits, services)
    if not grounded.hits:
        return Retrieval(RetrievalStatus.NO_CONTEXT, request, query, detail="no passage fits the token budget")
    status = RetrievalStatus.GROUNDED if max(hit.score for hit in hits) >= config.weak_score else RetrievalStatus.WEAK
    return Retrieval(status, grounded.request, query, grounded.hits, found.detail)


def _failed(parts: RouteParts, request: ChatRequest, query: str, error: Exception, services: Services) -> Retrieval:
    services.observer.problem("retrieval_failed", error, route=parts.name)
    detail = "retrieval ran out of time" if isinstance(error, TimeoutError) else str(error)
    refusal = None
    if parts.config.on_retrieval_failure is Policy.BLOCK:
        refusal = RetrievalFailedError(
            "the documents could not be searched, and this route does not answer without them; try again later"
        )
        refusal.__cause__ = error
    return Retrieval(RetrievalStatus.FAILED, request, query, detail=detail, refusal=refusal)


def _ground(
    parts: RouteParts, config: RetrievalConfig, request: ChatRequest, hits: tuple[Hit, ...], services: Services
) -> prompt.Grounded:
    settings = prompt.Settings(token_budget=config.token_budget, merge=parts.alternating_roles)
    # Fences are an HMAC of the conversation up to the user turn, so every replica makes the same ones again on the
    # tool turns that follow, and nobody who writes a document can know them.
    key = hmac.new(services.fence_key, parts.name.encode(), sha256).digest()
    return prompt.ground(request, hits, settings, key, parts.count_tokens or len)
