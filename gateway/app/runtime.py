"""Everything that one configuration makes, built as a whole and closed as a whole."""

from __future__ import annotations

from contextlib import AsyncExitStack
from urllib.parse import urlsplit

from gateway.access.keys import Keyring, Stored
from gateway.api.desk import Runtime
from gateway.app.collections import CollectionSet, check_collections
from gateway.app.judging import CheckBuilder
from gateway.app.upstreams import build_upstreams
from gateway.config.describe import version
from gateway.config.model import FactCheckConfig, GatewayConfig, OpenAIUpstreamConfig, RouteConfig, Server
from gateway.config.references import answering, is_loopback
from gateway.exchange.parts import RouteParts
from gateway.route import RouteTable
from gateway.upstream.base import Upstream
from gateway.upstream.pool import PoolUpstream


async def build_runtime(config: GatewayConfig, stored: Stored | None = None) -> Runtime:
    """Open what the configuration names. Raises `ConfigError` or `RetrievalError`; then nothing is left open.

    `stored` are the keys in the database, where the configuration takes them.
    """
    async with AsyncExitStack() as resources:
        upstreams = build_upstreams(config.upstreams)
        for upstream in upstreams.values():
            await upstream.aopen()
            resources.push_async_callback(upstream.aclose)
        collections = CollectionSet(config, resources)
        checks = CheckBuilder(config, resources)
        config_version = version(config)
        parts = {
            name: await _parts(name, config, upstreams, collections, checks, config_version) for name in config.routes
        }
        return Runtime(
            config=config,
            version=config_version,
            table=RouteTable(config),
            parts=parts,
            keyring=Keyring(
                config.keys, loopback=is_loopback(config.server.host), hosts=_hosts(config.server), stored=stored
            ),
            sources=collections,
            pools=tuple(upstream for upstream in upstreams.values() if isinstance(upstream, PoolUpstream)),
            anonymous=any(route.auth == "passthrough" for route in config.routes.values()),
            resources=resources.pop_all(),
        )


def _hosts(server: Server) -> list[str]:
    """The names by which this gateway is asked for."""
    public = urlsplit(server.public_url).hostname if server.public_url else None
    return [server.host, *([public] if public else [])]


async def _parts(
    name: str,
    config: GatewayConfig,
    upstreams: dict[str, Upstream],
    collections: CollectionSet,
    checks: CheckBuilder,
    config_version: str,
) -> RouteParts:
    route = config.routes[name]
    retrieval = route.retrieval
    retriever = await collections.prompt_retriever(retrieval) if retrieval else None
    evidence = check_collections(route)
    evidence_retriever = await collections.retriever(evidence, _evidence_k(route)) if evidence else None
    return RouteParts(
        name=name,
        config=route,
        upstream=upstreams[route.upstream],
        retriever=retriever,
        check=await checks.build(route, evidence_retriever),
        check_collections=evidence,
        alternating_roles=any(
            isinstance(section, OpenAIUpstreamConfig) and section.alternating_roles
            for section in answering(route, config.upstreams)
        ),
        config_version=config_version,
        embeddings=await collections.embeddings(route.embeddings) if route.embeddings else None,
        count_tokens=collections.token_counter(retrieval.collections) if retrieval else None,
        watch=checks.watch(route),
    )


def _evidence_k(route: RouteConfig) -> int:
    return route.check.k if isinstance(route.check, FactCheckConfig) else 9
