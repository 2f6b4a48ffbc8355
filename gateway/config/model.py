"""What `gateway.yaml` may say: frozen pydantic models with defaults, the source of the JSON Schema for editors.

Knows nothing of files or YAML; `gateway.config.load` reads, and reports problems with file and line. Impossible
combinations are refused here, by validators, with the remedy in the message. Times are seconds, sizes bytes.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from checks.types import FactLabel, Reason
from gateway.config.modes import Action, BlockResponse, BodyPolicy, Release, refusal_of

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$")]


class Strict(BaseModel):
    """Base of every section: unknown keys are errors, values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, use_attribute_docstrings=True)


class Secret(Strict):
    """A secret given in place (`${ENV}` expands) or in a file; never printed."""

    value: SecretStr | None = None
    file: Path | None = None


class TLSServer(Strict):
    """Certificate of our own listener; `client_ca` demands client certificates (mTLS)."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


class Server(Strict):
    """Where and how the gateway listens."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    workers: int = Field(1, ge=1, le=64)
    tls: TLSServer | None = None
    max_body_bytes: int = Field(20_000_000, ge=1_000)
    max_messages: int = Field(10_000, ge=1)
    drain_seconds: float = Field(20.0, ge=0)
    """How long running requests may go on after SIGTERM."""
    max_concurrent_requests: int = Field(2_000, ge=1)
    """More than this at once is answered with 503 and retry-after."""
    public_url: str | None = None
    """Base of the links in citations, e.g. `https://gateway.example.com`; default: the address of the request."""
    log_format: Literal["auto", "json", "console"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class Timeouts(Strict):
    """Time limits of an upstream."""

    connect: float = Field(5.0, gt=0)
    first_byte: float = Field(120.0, gt=0)
    idle: float = Field(60.0, gt=0)
    total: float = Field(600.0, gt=0)


class Retries(Strict):
    """Retries before the first byte of an answer."""

    attempts: int = Field(3, ge=1, le=10)
    """Tries in all; 1 turns retries off."""
    max_delay: float = Field(8.0, gt=0)
    statuses: tuple[int, ...] = (408, 409, 429, 500, 502, 503, 504)


class OutboundTLS(Strict):
    """TLS towards an upstream or judge."""

    ca_bundle: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if (self.client_certificate is None) != (self.client_key is None):
            raise ValueError("client_certificate and client_key go together: give both, or neither")
        return self


class OpenAIUpstreamConfig(Strict):
    """An OpenAI-compatible server: OpenAI, vLLM, Ollama, llama.cpp, Azure-style base URLs."""

    kind: Literal["openai"]
    base_url: str = Field(pattern=r"^https?://")
    """With the version path, e.g. `https://api.openai.com/v1`."""
    api_key: SecretStr | None = None
    api_key_file: Path | None = None
    api_key_header: Literal["authorization", "api-key"] = "authorization"
    api_version: str | None = None
    """Azure's `api-version` query parameter."""
    headers: dict[str, str] = {}
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    proxy: str | None = None
    """Outbound proxy URL, e.g. `http://user:pass@proxy:3128`."""
    tls: OutboundTLS = OutboundTLS()
    connections: int = Field(200, ge=1)
    max_response_bytes: int = Field(50_000_000, ge=1_000)
    alternating_roles: bool = False
    """True for chat templates that refuse two user messages in a row: passages are merged into the last one."""


class ExtractiveUpstreamConfig(Strict):
    """Answers with the best sentences of the retrieved passages; no language model."""

    kind: Literal["extractive"]
    max_sentences: int = Field(3, ge=1, le=10)


class PluginUpstreamConfig(Strict):
    """An upstream from another package, by its entry point name."""

    kind: Literal["plugin"]
    name: str
    options: dict[str, Any] = {}


UpstreamConfig = Annotated[
    OpenAIUpstreamConfig | ExtractiveUpstreamConfig | PluginUpstreamConfig, Field(discriminator="kind")
]


class JudgeConfig(Strict):
    """A language model that judges facts, through the vendor's SDK. Prices are USD per million tokens."""

    kind: Literal["openai", "anthropic"]
    model: str
    base_url: str | None = Field(None, pattern=r"^https?://")
    api_key: SecretStr | None = None
    api_key_file: Path | None = None
    timeout: float = Field(60.0, gt=0)
    attempts: int = Field(3, ge=1, le=10)
    concurrency: int = Field(8, ge=1)
    temperature: float | None = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(1024, ge=16)
    input_price: float | None = Field(None, ge=0)
    output_price: float | None = Field(None, ge=0)
    proxy: str | None = None
    tls: OutboundTLS = OutboundTLS()


class EncoderConfig(Strict):
    """What turns text into vectors. `onnx` is the shipped MiniLM and needs nothing else."""

    kind: Literal["onnx", "sentence_transformer", "openai", "hash"] = "onnx"
    model: str | None = None
    """Model name (`sentence_transformer`, `openai`) or directory (`onnx`); the shipped model by default."""
    base_url: str | None = Field(None, pattern=r"^https?://")
    api_key: SecretStr | None = None
    api_key_file: Path | None = None
    dimension: int | None = Field(None, ge=1)
    max_tokens: int | None = Field(None, ge=16)
    query_prefix: str = ""
    passage_prefix: str = ""
    threads: int = Field(2, ge=1)


class SplitterConfig(Strict):
    """How documents become passages, in tokens of the encoder."""

    tokens: int = Field(180, ge=16)
    overlap_sentences: int = Field(0, ge=0, le=5)


class CollectionConfig(Strict):
    """A set of documents that can be searched."""

    paths: tuple[Path, ...] = ()
    """Files and folders, relative to the configuration file."""
    encoder: EncoderConfig = EncoderConfig()
    splitter: SplitterConfig = SplitterConfig()
    hnsw_from: int = Field(50_000, ge=1)
    """Passages from which the flat index becomes an HNSW graph."""
    max_file_bytes: int = Field(50_000_000, ge=1_000)
    url_prefix: str | None = None
    """Public address of the documents: a document's path is appended to make its citation link."""


class QuestionsConfig(Strict):
    """Search questions per fact: from templates, or from a judge that sees query, fact and answer."""

    kind: Literal["template", "judge"] = "template"
    judge: str | None = None
    per_fact: int = Field(2, ge=1, le=8)

    @model_validator(mode="after")
    def _judge(self) -> Self:
        if self.kind == "judge" and not self.judge:
            raise ValueError("questions of kind 'judge' need judge: <name of a judge>")
        return self


class ClassifierConfig(Strict):
    """What labels (fact, passage) pairs: `local` (shipped, no key) or `judge`."""

    kind: Literal["local", "judge", "plugin"] = "local"
    judge: str | None = None
    name: str | None = None
    options: dict[str, Any] = {}

    @model_validator(mode="after")
    def _judge(self) -> Self:
        if self.kind == "judge" and not self.judge:
            raise ValueError("a classifier of kind 'judge' needs judge: <name of a judge>")
        if self.kind == "plugin" and not self.name:
            raise ValueError("a classifier of kind 'plugin' needs name: <its entry point>")
        return self


class StageTimeouts(Strict):
    """Deadlines of a check's stages."""

    questions: float = Field(20.0, gt=0)
    search: float = Field(5.0, gt=0)
    classify: float = Field(60.0, gt=0)
    total: float = Field(90.0, gt=0)


class AggregationConfig(Strict):
    """How pair verdicts become a fact's, and facts' an answer's."""

    kind: Literal["strict", "graded"] = "strict"
    support_threshold: float = Field(0.5, gt=0, lt=1)
    """Probability of support that a passage must reach to confirm a fact."""
    refute_threshold: float = Field(0.5, gt=0, lt=1)
    """Probability of refutation that a passage must reach to refute one."""
    fail_threshold: float = Field(0.5, gt=0, lt=1)
    """`graded`: a fact whose probability of being wrong is above this fails."""
    fails: dict[FactLabel, bool] = {}
    """Overrides of which labels fail, e.g. `{half_true: true}`."""


class FactCheckConfig(Strict):
    """Check the facts of an answer against documents."""

    kind: Literal["facts"]
    collections: tuple[str, ...] = ()
    """Where evidence is searched; the route's retrieval collections by default."""
    k: int = Field(9, ge=1, le=100)
    questions: QuestionsConfig = QuestionsConfig()
    classifier: ClassifierConfig = ClassifierConfig()
    aggregation: AggregationConfig = AggregationConfig()
    timeouts: StageTimeouts = StageTimeouts()
    max_facts: int = Field(60, ge=1, le=1000)


class PluginCheckConfig(Strict):
    """A check from another package, by its entry point name."""

    kind: Literal["plugin"]
    name: str
    options: dict[str, Any] = {}
    whole_answer: bool = True


CheckConfig = Annotated[FactCheckConfig | PluginCheckConfig, Field(discriminator="kind")]


class RetrievalConfig(Strict):
    """Grounding of a route's prompts. Leave the section out to forward prompts as they come."""

    collections: tuple[str, ...] = Field(min_length=1)
    k: int = Field(6, ge=1, le=100)
    min_score: float = Field(0.25, ge=-1, le=1)
    """Hits below are not used; none left means `no_context`."""
    weak_score: float = Field(0.4, ge=-1, le=1)
    """A best hit below this makes the retrieval `weak` instead of `grounded`."""
    token_budget: int = Field(2_000, ge=64)
    timeout: float = Field(5.0, gt=0)
    filters: dict[str, str] = {}
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
    check: tuple[Literal["off", "shadow"], ...] = ()
    filters: bool = True


class RouteConfig(Strict):
    """One entry point: which upstream answers, what grounds the prompt, what checks the answer, what a verdict does."""

    upstream: str
    model: str | None = None
    """Model name sent upstream; the client's own by default."""
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
    on_unchecked: dict[Reason, Policy] = {}
    on_retrieval_failure: Policy = Policy.ALLOW
    keep_alive_after: float = Field(5.0, gt=0)
    """Seconds of silence on a stream after which a comment line is sent, and again after each further such time."""
    held_bytes: int = Field(4_000_000, ge=10_000)
    """Most that `held` and `sentence` keep back; more than this is `not_checked(too_long)`."""
    bodies: BodyPolicy = BodyPolicy.KEEP
    other_paths: Literal["forward", "refuse"] = "refuse"
    """Requests to other `/v1/...` paths: forwarded unread (recorded as not checked), or refused."""
    request_options: RequestOptions = RequestOptions()

    @field_validator("on_unchecked")
    @classmethod
    def _known(cls, value: dict[Reason, Policy]) -> dict[Reason, Policy]:
        return {Reason(k): Policy(v) for k, v in value.items()}

    @model_validator(mode="after")
    def _possible(self) -> Self:
        whole = isinstance(self.check, PluginCheckConfig) and self.check.whole_answer
        why = refusal_of(self.release, self.action, self.block_response, whole_answer=whole)
        if why:
            raise ValueError(why)
        if self.check is None and self.action is not Action.ANNOTATE:
            raise ValueError(f"action: {self.action} needs a check; add check: {{kind: facts}} or drop the action")
        if isinstance(self.check, FactCheckConfig) and not self.check.collections and self.retrieval is None:
            raise ValueError("the check has no collections to search: add check.collections, or retrieval.collections")
        return self

    def unchecked_policy(self, reason: Reason) -> Policy:
        """What a choice that was not checked for `reason` means on this route.

        Nothing is blocked by a route that could not act on a bad verdict either.
        """
        given = self.on_unchecked.get(reason)
        if given is not None:
            return given
        if self.action is Action.ANNOTATE:
            return Policy.ALLOW
        return DEFAULT_UNCHECKED[reason]


class KeyConfig(Strict):
    """A key that clients send as bearer token. Only its SHA-256 stands here: `grounding-gateway keys hash`."""

    id: Name
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    routes: tuple[str, ...] = ("*",)
    groups: tuple[str, ...] = ()
    audit: bool = False
    """May read recorded exchanges of its routes (`GET /v1/exchanges`)."""


class SpoolConfig(Strict):
    """The local spool in front of Postgres."""

    fsync: Literal["off", "normal", "full"] = "normal"
    max_bytes: int = Field(2_000_000_000, ge=1_000_000)
    when_full: Literal["refuse", "serve_unrecorded"] = "refuse"


class LedgerConfig(Strict):
    """Where verdicts are kept. Without `database_url` a Postgres of our own runs under the data directory."""

    database_url: SecretStr | None = None
    spool: SpoolConfig = SpoolConfig()
    retention_days: int | None = Field(None, ge=1)
    port: int = Field(0, ge=0, le=65535)
    """Port of our own Postgres; 0 picks a free one."""


class GatewayConfig(Strict):
    """The whole of `gateway.yaml`."""

    data_dir: Path = Path(".data")
    """Indexes, spool, our own Postgres; relative to the configuration file."""
    server: Server = Server()
    upstreams: dict[Name, UpstreamConfig]
    judges: dict[Name, JudgeConfig] = {}
    collections: dict[Name, CollectionConfig] = {}
    routes: dict[Name, RouteConfig]
    keys: tuple[KeyConfig, ...] = ()
    ledger: LedgerConfig = LedgerConfig()
