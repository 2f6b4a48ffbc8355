"""What an exchange is given: a route's parts, the call's values, the services it may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from checks.facts.drift import ScoreWatch
from checks.types import Check, Verdict
from gateway.access.limiter import Grant
from gateway.config.model import RouteConfig
from gateway.config.modes import Action, Release
from gateway.ledger.record import Ledger
from gateway.telemetry.trace_context import TraceContext
from gateway.upstream.base import Upstream
from gateway.upstream.embeddings import LocalEmbeddings
from retrieval.types import Retriever


@dataclass(frozen=True, slots=True)
class RouteParts:
    """A route, ready to serve: its configuration and the parts it names.

    `check_collections` is where evidence is searched; `alternating_roles` says that passages must be merged into the
    last user message. `watch` tells when facts no longer look like those that the check was calibrated on.
    """

    name: str
    config: RouteConfig
    upstream: Upstream
    retriever: Retriever | None = None
    check: Check | None = None
    check_collections: tuple[str, ...] = ()
    alternating_roles: bool = False
    config_version: str = ""
    count_tokens: Callable[[str], int] | None = None
    embeddings: LocalEmbeddings | None = None
    """Answers `/v1/embeddings`, in place of the upstream."""
    watch: ScoreWatch | None = None

    def action_in_force(self, action: Action) -> Action:
        """What a bad verdict does now: nothing is blocked by a threshold that the facts have drifted away from."""
        drifted = self.watch is not None and self.watch.drifted
        return Action.ANNOTATE if drifted and action is Action.BLOCK else action


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call as the edge saw it. `headers` are those that may go upstream; `source_base` starts citation links.

    `upstream_model` is the model name to send (None leaves the client's own), `groups` the caller's groups. `trace` is
    the exchange's place in a trace, where traces are made.
    """

    id: str
    created_at: float
    path: str
    release: Release
    action: Action
    check: bool = True
    key_id: str | None = None
    request_id: str | None = None
    groups: frozenset[str] = frozenset()
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    authorization: str | None = None
    upstream_model: str | None = None
    source_base: str = ""
    grant: Grant | None = None
    """What a limited key's request was let in with."""
    trace: TraceContext | None = None

    def __repr__(self) -> str:
        return f"Call({self.id!r})"  # the headers and the authorization are secret


class Observer(Protocol):
    """Told of what happens in an exchange, for metrics and logs."""

    def stage(self, route: str, stage: str, seconds: float) -> None: ...

    def verdict(self, route: str, verdict: Verdict) -> None: ...

    def problem(self, event: str, error: BaseException, **fields: str) -> None: ...

    def drift(self, route: str, *, drifted: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class Services:
    """What every exchange shares. `clock` is monotonic seconds; `fence_key` seeds the fences of injected passages."""

    ledger: Ledger
    observer: Observer
    clock: Callable[[], float]
    fence_key: bytes = field(repr=False)
