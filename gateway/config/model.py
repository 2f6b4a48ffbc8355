"""What `gateway.yaml` may say: frozen pydantic models with defaults, the source of the JSON Schema for editors.

Knows nothing of files or YAML; `gateway.config.load` reads, and reports problems with file and line. Impossible
combinations within a section are refused here, by validators, with the remedy in the message; references between
sections are checked in `gateway.config.references`. Times are seconds, sizes bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from checks.types import Reason
from gateway.config.access import AccessConfig, Budget, KeyConfig, PriceConfig, RateLimits
from gateway.config.backends import (
    ADDRESS,
    AnthropicUpstreamConfig,
    AzureUpstreamConfig,
    CollectionConfig,
    EncoderConfig,
    ExtractiveUpstreamConfig,
    HttpUpstreamConfig,
    JudgeConfig,
    OpenAIUpstreamConfig,
    OutboundTLS,
    PluginUpstreamConfig,
    PoolUpstreamConfig,
    ResponsesUpstreamConfig,
    Retries,
    SearchConfig,
    SplitterConfig,
    Timeouts,
    UpstreamConfig,
)
from gateway.config.base import AnyPath, Conflict, Name, ReadablePath, Strict, by_default, impossible
from gateway.config.checking import (
    AggregationConfig,
    CheckConfig,
    ClassifierConfig,
    FactCheckConfig,
    PluginCheckConfig,
    QuestionsConfig,
    StageTimeouts,
)
from gateway.config.modes import Action, BlockResponse, BodyPolicy, Release, refusal_of
from gateway.config.observing import TelemetryConfig
from gateway.config.overload import LoadConfig
from gateway.config.reviewing import RepositoryConfig, ReviewCheckConfig

__all__ = [
    "DEFAULT_UNCHECKED",
    "AccessConfig",
    "AggregationConfig",
    "AnthropicUpstreamConfig",
    "AzureUpstreamConfig",
    "Budget",
    "CheckConfig",
    "ClassifierConfig",
    "CollectionConfig",
    "EncoderConfig",
    "ExtractiveUpstreamConfig",
    "FactCheckConfig",
    "GatewayConfig",
    "HttpUpstreamConfig",
    "JudgeConfig",
    "KeyConfig",
    "LedgerConfig",
    "LoadConfig",
    "Name",
    "OpenAIUpstreamConfig",
    "OutboundTLS",
    "PluginCheckConfig",
    "PluginUpstreamConfig",
    "Policy",
    "PoolUpstreamConfig",
    "PriceConfig",
    "QuestionsConfig",
    "RateLimits",
    "RepositoryConfig",
    "RequestOptions",
    "ResponsesUpstreamConfig",
    "Retries",
    "RetrievalConfig",
    "ReviewCheckConfig",
    "RouteConfig",
    "SearchConfig",
    "Server",
    "SplitterConfig",
    "SpoolConfig",
    "StageTimeouts",
    "Strict",
    "TLSServer",
    "TelemetryConfig",
    "Timeouts",
    "UpstreamConfig",
]


class TLSServer(Strict):
    """Certificate of our own listener; `client_ca` demands client certificates (mTLS)."""

    certificate: ReadablePath
    key: ReadablePath
    client_ca: ReadablePath | None = None


class Server(Strict):
    """Where and how the gateway listens."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    workers: int = Field(default=1, ge=1, le=64)
    tls: TLSServer | None = None
    max_body_bytes: int = Field(default=20_000_000, ge=1_000)
    max_messages: int = Field(default=10_000, ge=1)
    drain_seconds: float = Field(default=20.0, ge=0)
    """How long running requests may go on after SIGTERM."""
    max_concurrent_requests: int = Field(default=2_000, ge=1)
    """More than this at once is answered with 503 and retry-after."""
    public_url: str | None = Field(default=None, pattern=ADDRESS)
    """Base of the links in citations, e.g. `https://gateway.example.com`; default: the address of the request."""
    secret: SecretStr | None = None
    """Seed of the fences around documents in prompts; replicas behind one address must share it."""
    secret_file: AnyPath | None = None
    log_format: Literal["auto", "json", "console"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class RerankConfig(Strict):
    """A server that puts hits in order, question and passage read together; late or failed, it changes nothing."""

    url: str = Field(pattern=ADDRESS)
    """The whole address, e.g. `https://api.example.com/v1/rerank`."""
    dialect: Literal["cohere", "tei"] = "cohere"
    model: str | None = None
    api_key: SecretStr | None = None
    api_key_file: AnyPath | None = None
    """A file that holds the key, e.g. a mounted secret."""
    candidates: int = Field(default=30, ge=2, le=200)
    timeout: float = Field(default=1.0, gt=0)


class RetrievalConfig(Strict):
    """Grounding of a route's prompts. Leave the section out to forward prompts as they come."""

    collections: tuple[str, ...] = Field(min_length=1)
    k: int = Field(default=8, ge=1, le=100)
    min_score: float = Field(default=0.25, ge=-1, le=1)
    """Hits below are not used; none left means `no_context`."""
    weak_score: float = Field(default=0.4, ge=-1, le=1)
    """A best hit below this makes the retrieval `weak` instead of `grounded`."""
    token_budget: int = Field(default=2_000, ge=64)
    diversity: float = Field(default=0.0, ge=0, le=1)
    """Above 0, passages that repeat the words of better ones give way to others."""
    neighbours: int = Field(default=0, ge=0, le=3)
    """Passages before and after each hit that come along, after all hits, as far as the budget goes."""
    rerank: RerankConfig | None = None
    timeout: float = Field(default=5.0, gt=0)
    filters: dict[str, str] = Field(default={})
    """Always in force; a request can only narrow further."""


class Policy(StrEnum):
    """Let an answer pass, or block it."""

    ALLOW = "allow"
    BLOCK = "block"


DEFAULT_UNCHECKED: dict[Reason, Policy] = {
    reason: Policy.ALLOW if reason in {Reason.NO_FACTS, Reason.DISABLED} else Policy.BLOCK for reason in Reason
}


class RequestOptions(Strict):
    """Which of our own request options a client may use on this route."""

    release: tuple[Release, ...] = ()
    """Releases a request may choose instead of the route's own."""
    check: tuple[Literal["off", "shadow"], ...] = ()
    """`off`: not checked (recorded as `disabled`); `shadow`: checked for the ledger only, as `release: detached`."""
    filters: bool = True
    """A request may narrow the search to passages with given metadata."""
    repository: bool | None = None
    """A request may name `repository`, `revision` and `base_revision`; by default where the check has repositories."""


class RouteConfig(Strict):
    """One entry point: which upstream answers, what grounds the prompt, what checks the answer, what a verdict does."""

    upstream: str
    model: str | None = None
    """Model name sent upstream; the client's own by default."""
    client_model: bool = False
    """A model name of the client's own, other than the route's, wins over `model`."""
    default: bool = False
    """The route for model names at `/v1` that are no route's name."""
    auth: Literal["keys", "passthrough"] = "keys"
    """`passthrough`: the caller's own upstream key is sent on, and is all that is asked for."""
    retrieval: RetrievalConfig | None = None
    check: CheckConfig | None = None
    release: Release = Release.LIVE
    action: Action = Action.ANNOTATE
    block_response: BlockResponse = BlockResponse.ERROR
    """How a block looks: `error` (422) or `refusal` (200, finish_reason content_filter)."""
    refusal_text: str = "This answer was withheld because it could not be confirmed by the documents."
    repair_failed: Policy = Policy.BLOCK
    """What happens to an answer that is still bad after its one repair."""
    on_unchecked: dict[Reason, Policy] = Field(default={})
    on_retrieval_failure: Policy = Policy.ALLOW
    keep_alive_after: float = Field(default=5.0, gt=0)
    """Seconds of silence on a stream after which a comment line is sent, and again after each further such time."""
    held_bytes: int = Field(default=4_000_000, ge=10_000)
    """Most that `held` and `sentence` keep back; more than this is `not_checked(too_long)`."""
    bodies: BodyPolicy = BodyPolicy.KEEP
    load: LoadConfig = by_default(LoadConfig)
    embeddings: str | None = None
    """A collection whose encoder answers `/v1/embeddings` of this route."""
    other_paths: Literal["forward", "refuse"] = "refuse"
    """Requests to other `/v1/...` paths: forwarded unread (recorded as not checked), or refused."""
    request_options: RequestOptions = by_default(RequestOptions)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        conflicts = (*self._mode_conflicts(), *self._check_conflicts())
        if conflicts:
            raise impossible(*conflicts)
        return self

    def _mode_conflicts(self) -> Iterator[Conflict]:
        """Cells of the table of modes that cannot work, for the route's own values and for those a request may ask."""
        whole = isinstance(self.check, ReviewCheckConfig) or (
            isinstance(self.check, PluginCheckConfig) and self.check.whole_answer
        )
        own = refusal_of(self.release, self.action, self.block_response, whole_answer=whole)
        if own:
            yield Conflict(own, ("release", "action", "block_response", "check"))
        for asked in self.request_options.release:
            why = refusal_of(asked, self.action, self.block_response, whole_answer=whole)
            if why and asked is not self.release:
                why = f"{why}; or take {asked} out of request_options.release"
                yield Conflict(why, ("request_options", "action", "block_response", "check"))
        blocking = [reason.value for reason, policy in self.on_unchecked.items() if policy is Policy.BLOCK]
        why = refusal_of(self.release, Action.BLOCK, self.block_response, whole_answer=whole)
        if blocking and why and not own:
            why = f"on_unchecked: {{{blocking[0]}: block}} has to block, which is the same as action: block: {why}"
            yield Conflict(why, ("on_unchecked", "release", "block_response", "check"))

    def _check_conflicts(self) -> Iterator[Conflict]:
        if self.check is None and self.action is not Action.ANNOTATE:
            why = f"action: {self.action} needs a check; add check: {{kind: facts}} or drop the action"
            yield Conflict(why, ("action", "check"))
        if isinstance(self.check, FactCheckConfig) and not self.check.collections and self.retrieval is None:
            why = "the check has no collections to search: add check.collections, or retrieval.collections"
            yield Conflict(why, ("check", "retrieval"))
        if "off" in self.request_options.check and self.on_unchecked.get(Reason.DISABLED) is Policy.BLOCK:
            why = (
                "request_options.check lets a request switch the check off, and on_unchecked: {disabled: block} blocks "
                "every such answer; drop one of the two"
            )
            yield Conflict(why, ("request_options", "on_unchecked"))

        yield from self._review_conflicts()

    def _review_conflicts(self) -> Iterator[Conflict]:
        check = self.check if isinstance(self.check, ReviewCheckConfig) else None
        if self.request_options.repository and check is not None and not check.repositories:
            why = (
                "request_options.repository lets a request name a repository, and there is none to name; add "
                "check: {kind: code_review, repositories: [...]}, or drop it"
            )
            yield Conflict(why, ("request_options", "check"))
        if check is not None and check.shadow and self.request_options.release:
            why = (
                "check.shadow serves every answer at once and only records, so request_options.release has no effect; "
                "drop one of the two"
            )
            yield Conflict(why, ("request_options", "check"))

    @property
    def names_repositories(self) -> bool:
        """Whether a request may say which repository and revision it is about."""
        if self.request_options.repository is not None:
            return self.request_options.repository
        return isinstance(self.check, ReviewCheckConfig) and bool(self.check.repositories)

    def unchecked_policy(self, reason: Reason) -> Policy:
        """What a choice that was not checked for `reason` means on this route.

        Nothing is blocked by a route that could not act on a bad verdict either.
        """
        given = self.on_unchecked.get(reason)
        if given is not None:
            return given
        if self.action is Action.ANNOTATE or (
            self.action is Action.FILTER and isinstance(self.check, ReviewCheckConfig)
        ):
            # What was not judged of a review stays in it, as its policies say; a bot must not lose the rest.
            return Policy.ALLOW
        return DEFAULT_UNCHECKED[reason]


class SpoolConfig(Strict):
    """The local spool in front of Postgres."""

    fsync: Literal["off", "normal", "full"] = "normal"
    max_bytes: int = Field(default=2_000_000_000, ge=1_000_000)
    when_full: Literal["refuse", "serve_unrecorded"] = "refuse"


class LedgerConfig(Strict):
    """Where verdicts are kept. Without `database_url` a Postgres of our own runs under the data directory."""

    database_url: SecretStr | None = None
    """e.g. `postgresql://user:password@host:5432/name`."""
    database_url_file: AnyPath | None = None
    """A file that holds the address, e.g. a mounted secret."""
    spool: SpoolConfig = by_default(SpoolConfig)
    retention_days: int | None = Field(default=None, ge=1)
    port: int = Field(default=0, ge=0, le=65535)
    """Port of our own Postgres; 0 picks a free one."""
    migrate: Literal["all", "pre", "never"] = "all"
    """How far `serve` migrates the schema before it listens: `never` leaves it to `grounding-gateway migrate`."""

    maintain: bool = True
    """Make and drop the months' partitions; false leaves that to `grounding-gateway maintain` and another role."""

    @model_validator(mode="after")
    def _own_postgres_is_looked_after(self) -> Self:
        left = "migrate: never" if self.migrate == "never" else "" if self.maintain else "maintain: false"
        if left and self.database_url is None:
            why = (
                f"{left} leaves the schema to somebody else, and nobody else can reach a Postgres of the gateway's "
                "own; name a database in database_url, or leave it out"
            )
            raise impossible(Conflict(why, (left.partition(":")[0],)))
        return self


class GatewayConfig(Strict):
    """The whole of `gateway.yaml`."""

    data_dir: AnyPath = Path(".data")
    """Indexes, spool, our own Postgres; relative to the configuration file."""
    server: Server = by_default(Server)
    upstreams: dict[Name, UpstreamConfig] = Field(min_length=1)
    judges: dict[Name, JudgeConfig] = Field(default={})
    collections: dict[Name, CollectionConfig] = Field(default={})
    repositories: dict[Name, RepositoryConfig] = Field(default={})
    routes: dict[Name, RouteConfig] = Field(min_length=1)
    keys: tuple[KeyConfig, ...] = ()
    access: AccessConfig = by_default(AccessConfig)
    prices: dict[str, PriceConfig] = Field(default={})
    """By model name or its beginning; `*` for all others."""
    ledger: LedgerConfig = by_default(LedgerConfig)
    telemetry: TelemetryConfig = by_default(TelemetryConfig)
