"""Sections about what the gateway talks to: upstreams, judges, encoders, collections. Times are seconds, sizes bytes.

Knows nothing of routes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator

from gateway.config.base import AnyPath, Conflict, ReadablePath, Strict, by_default, impossible, resolved

ADDRESS: Final = r"^https?://[^\s/@?#]+([/?#].*)?$"
"""An address with a host and without credentials, which would show in logs."""


class Timeouts(Strict):
    """Time limits of an upstream."""

    connect: float = Field(default=5.0, gt=0)
    first_byte: float = Field(default=120.0, gt=0)
    idle: float = Field(default=60.0, gt=0)
    total: float = Field(default=600.0, gt=0)


class Retries(Strict):
    """Retries before the first byte of an answer."""

    attempts: int = Field(default=3, ge=1, le=10)
    """Tries in all; 1 turns retries off."""
    max_delay: float = Field(default=8.0, gt=0)
    statuses: tuple[Annotated[int, Field(ge=400, le=599)], ...] = (408, 409, 429, 500, 502, 503, 504, 529)


class OutboundTLS(Strict):
    """TLS towards an upstream or judge."""

    ca_bundle: ReadablePath | None = None
    client_certificate: ReadablePath | None = None
    client_key: ReadablePath | None = None

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if (self.client_certificate is None) != (self.client_key is None):
            why = "client_certificate and client_key go together: give both, or neither"
            raise impossible(Conflict(why, ("client_certificate", "client_key")))
        return self


class HttpUpstreamConfig(Strict):
    """What every model server over HTTP has."""

    base_url: str = Field(pattern=ADDRESS)
    api_key: SecretStr | None = None
    api_key_file: AnyPath | None = None
    """A file that holds the key, e.g. a mounted secret."""
    headers: dict[str, str] = Field(default={}, repr=False)
    """Sent with every request; may hold credentials, so they are never shown."""
    timeouts: Timeouts = by_default(Timeouts)
    retries: Retries = by_default(Retries)
    proxy: str | None = Field(default=None, pattern=r"^https?://", repr=False)
    """Outbound proxy URL, e.g. `http://user:pass@proxy:3128`."""
    tls: OutboundTLS = by_default(OutboundTLS)
    connections: int = Field(default=200, ge=1)
    max_response_bytes: int = Field(default=50_000_000, ge=1_000)


class OpenAIUpstreamConfig(HttpUpstreamConfig):
    """An OpenAI-compatible server: OpenAI, vLLM, Ollama, llama.cpp, Azure's `/openai/v1`."""

    kind: Literal["openai"]
    base_url: str = Field(pattern=ADDRESS)
    """With the version path, e.g. `https://api.openai.com/v1`."""
    api_key_header: Literal["authorization", "api-key"] = "authorization"
    api_version: str | None = None
    """Azure's `api-version` query parameter."""
    alternating_roles: bool = False
    """True for chat templates that refuse two user messages in a row: passages are merged into the last one."""


class AzureUpstreamConfig(HttpUpstreamConfig):
    """Azure OpenAI with its deployments in the path."""

    kind: Literal["azure"]
    base_url: str = Field(pattern=ADDRESS)
    """The resource's endpoint, e.g. `https://name.openai.azure.com`."""
    api_version: str = "2024-10-21"
    api_key_header: Literal["authorization", "api-key"] = "api-key"
    """`authorization` for Entra ID tokens."""
    deployments: dict[str, str] = Field(default={})
    """Model names to deployments; a model that is not here is a deployment's name itself."""


class AnthropicUpstreamConfig(HttpUpstreamConfig):
    """Anthropic's Messages API, or a server that speaks it; chat completions are translated both ways."""

    kind: Literal["anthropic"]
    base_url: str = Field(default="https://api.anthropic.com/v1", pattern=ADDRESS)
    max_tokens: int = Field(default=8192, ge=1)
    """For requests that name none, as the Messages API wants one."""
    thinking: Literal["adaptive", "budget"] = "adaptive"
    """What `reasoning_effort` becomes; `budget` is for models before adaptive thinking."""
    ignore_fields: tuple[str, ...] = ()
    """Request fields that are left out instead of refused where the Messages API has no place for them, e.g. `seed`."""


class ResponsesUpstreamConfig(HttpUpstreamConfig):
    """OpenAI's Responses API, or a server that speaks it; chat completions are translated both ways."""

    kind: Literal["responses"]
    base_url: str = Field(default="https://api.openai.com/v1", pattern=ADDRESS)
    api_key_header: Literal["authorization", "api-key"] = "authorization"
    api_version: str | None = None
    """Azure's `api-version` query parameter."""
    reasoning: bool = False
    """True for models that reason: their encrypted reasoning is asked for, so that it goes back with tool results."""
    ignore_fields: tuple[str, ...] = ()
    """Request fields that are left out, not refused, where the Responses API has no place for them, e.g. `seed`."""


class ExtractiveUpstreamConfig(Strict):
    """Answers with the best sentences of the retrieved passages; no language model."""

    kind: Literal["extractive"]
    max_sentences: int = Field(default=3, ge=1, le=10)


class PoolMember(Strict):
    """One upstream of a pool."""

    upstream: str
    """The name of an upstream that is not itself a pool."""
    weight: int = Field(default=1, ge=1, le=1_000)
    """Its share among members of the same priority."""
    priority: int = Field(default=0, ge=0, le=100)
    """Smaller ones are asked first; others only when none of those can answer."""
    model: str | None = None
    """Model name sent to this one, where it differs from the route's."""


class BreakerConfig(Strict):
    """When a failing member is left alone."""

    failures: int = Field(default=5, ge=1, le=1_000)
    """Failures in a row that open the breaker."""
    open_for: float = Field(default=30.0, gt=0)
    """Seconds until one request is let through as a trial."""


class PoolUpstreamConfig(Strict):
    """Several upstreams as one: shares, priorities, breakers, fallbacks."""

    kind: Literal["pool"]
    members: tuple[PoolMember, ...] = Field(min_length=1)
    retries: Retries = by_default(Retries)
    """Of all members together; theirs do not apply here. `statuses` are those that another member is asked after."""
    fallback_on: tuple[Literal["timeout", "connection", "broken_answer", "context_length"], ...] = (
        "timeout",
        "connection",
        "broken_answer",
        "context_length",
    )
    """After which failures beside `retries.statuses` another member is asked."""
    breaker: BreakerConfig = by_default(BreakerConfig)
    total: float = Field(default=600.0, gt=0)
    """Time for a whole request, all tries and the answer."""
    hedge_after: float | None = Field(default=None, gt=0)
    """Seconds without content after which a second member is asked beside the first; costs a second answer."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        conflicts = []
        if self.hedge_after is not None and (len(self.members) < 2 or self.retries.attempts < 2):
            why = "hedge_after asks a second member: name two members at least, and let retries.attempts be 2 or more"
            conflicts.append(Conflict(why, ("hedge_after", "members", "retries")))
        if self.hedge_after is not None and self.hedge_after >= self.total:
            why = "hedge_after is not shorter than total, so a second member is never asked; make it shorter"
            conflicts.append(Conflict(why, ("hedge_after", "total")))
        if conflicts:
            raise impossible(*conflicts)
        return self


class PluginUpstreamConfig(Strict):
    """An upstream from another package, by its entry point name."""

    kind: Literal["plugin"]
    name: str
    options: dict[str, Any] = Field(default={}, repr=False)


UpstreamConfig = Annotated[
    OpenAIUpstreamConfig
    | AzureUpstreamConfig
    | AnthropicUpstreamConfig
    | ResponsesUpstreamConfig
    | ExtractiveUpstreamConfig
    | PluginUpstreamConfig
    | PoolUpstreamConfig,
    Field(discriminator="kind"),
]


class JudgeConfig(Strict):
    """A language model that judges facts, through the vendor's SDK. Prices are USD per million tokens."""

    kind: Literal["openai", "anthropic"]
    model: str
    base_url: str | None = Field(default=None, pattern=ADDRESS)
    api_key: SecretStr | None = None
    api_key_file: AnyPath | None = None
    """A file that holds the key, e.g. a mounted secret."""
    timeout: float = Field(default=60.0, gt=0)
    attempts: int = Field(default=3, ge=1, le=10)
    concurrency: int = Field(default=8, ge=1)
    temperature: float | None = Field(default=0.0, ge=0, le=2)
    max_tokens: int = Field(default=1024, ge=16)
    input_price: float | None = Field(default=None, ge=0)
    output_price: float | None = Field(default=None, ge=0)
    proxy: str | None = Field(default=None, pattern=r"^https?://", repr=False)
    tls: OutboundTLS = by_default(OutboundTLS)


class EncoderConfig(Strict):
    """What turns text into vectors. `onnx` is the shipped MiniLM and needs nothing else."""

    kind: Literal["onnx", "sentence_transformer", "openai", "hash"] = "onnx"
    model: str | None = None
    """Model name (`sentence_transformer`, `openai`) or directory (`onnx`); the shipped model by default."""
    base_url: str | None = Field(default=None, pattern=ADDRESS)
    api_key: SecretStr | None = None
    api_key_file: AnyPath | None = None
    """A file that holds the key, e.g. a mounted secret."""
    dimension: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=16)
    query_prefix: str = ""
    passage_prefix: str = ""
    threads: int = Field(default=2, ge=1)

    @field_validator("model")
    @classmethod
    def _directory(cls, value: str | None, info: ValidationInfo) -> str | None:
        """The model of an `onnx` encoder is a directory, so it starts at the configuration file like other paths."""
        if value is not None and info.data.get("kind") == "onnx":
            return str(resolved(Path(value), info))
        return value

    @model_validator(mode="after")
    def _model(self) -> Self:
        if self.kind in ("sentence_transformer", "openai") and not self.model:
            why = f"an encoder of kind '{self.kind}' needs model: <name of the embedding model>"
            raise impossible(Conflict(why, ("kind", "model")))
        if self.kind == "openai" and not self.base_url:
            why = "an encoder of kind 'openai' needs base_url, e.g. https://api.openai.com/v1"
            raise impossible(Conflict(why, ("kind", "base_url")))
        return self


class SplitterConfig(Strict):
    """How documents become passages, in tokens of the encoder."""

    tokens: int = Field(default=90, ge=16)
    """Short passages: in long ones a detail is drowned, and the search for the fact it decides does not find it."""
    overlap_sentences: int = Field(default=0, ge=0, le=5)


class SearchConfig(Strict):
    """How a collection is searched: by vectors and by words, or by vectors alone."""

    mode: Literal["hybrid", "dense"] = "hybrid"
    languages: tuple[
        Literal[
            "ar", "da", "de", "el", "en", "es", "fi", "fr", "hu", "it", "nl", "no", "pt", "ro", "ru", "sv", "ta", "tr"
        ],
        ...,
    ] = ("en", "ru")
    """Whose words are stemmed; at most one of each script."""
    fusion: Literal["calibrated", "rrf"] | None = None
    """Default: what `evaluate retrieval --fit` chose for the collection, else `calibrated`."""
    lexical_weight: float | None = Field(default=None, ge=0, le=1)
    """0 leaves the words out, 1 the vectors. Default: what was fitted, else a weight for each question."""
    candidates: int = Field(default=100, ge=10, le=1_000)
    """Passages that each leg gives at least."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.mode == "dense" and (self.fusion is not None or self.lexical_weight is not None):
            why = "mode: dense searches without words: leave fusion and lexical_weight out, or use mode: hybrid"
            raise impossible(Conflict(why, ("mode", "fusion", "lexical_weight")))
        latin = [language for language in self.languages if language not in ("ar", "el", "ru", "ta")]
        if len(latin) > 1:
            why = f"languages of one script ({', '.join(latin)}) cannot be told apart word by word: name one of them"
            raise impossible(Conflict(why, ("languages",)))
        return self


class CollectionConfig(Strict):
    """A set of documents that can be searched."""

    paths: tuple[AnyPath, ...] = ()
    """Files and folders, relative to the configuration file."""
    encoder: EncoderConfig = by_default(EncoderConfig)
    splitter: SplitterConfig = by_default(SplitterConfig)
    search: SearchConfig = by_default(SearchConfig)
    hnsw_from: int = Field(default=50_000, ge=1)
    """Passages from which the flat index becomes an HNSW graph."""
    max_file_bytes: int = Field(default=50_000_000, ge=1_000)
    url_prefix: str | None = None
    """Public address of the documents: a document's path is appended to make its citation link."""
