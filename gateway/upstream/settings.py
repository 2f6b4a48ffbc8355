"""What an upstream over HTTP needs to know. Values only; it does not know the configuration file."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from yarl import URL

from gateway.errors import ConfigError, RequestError
from gateway.upstream.retrying import RetryPolicy

USER_AGENT = "grounding-gateway"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTimeouts:
    """Seconds. `connect_s` counts from asking for a connection, waiting for a free one included; `first_byte_s` bounds
    the silence from sending the request to the headers, and from there to the first byte of the body; `idle_s` bounds
    the silence between two reads after that, `total_s` all tries together."""

    connect_s: float = 5.0
    first_byte_s: float = 120.0
    idle_s: float = 60.0
    total_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISettings:
    """One model server over HTTP: OpenAI, vLLM, Ollama, llama.cpp, and those that speak another dialect.

    `base_url` has the version path (`https://api.openai.com/v1`); the `/v1` of a request's path is replaced by it.
    `pass_headers` names further client headers that may reach the upstream. `ca_bundle` replaces the system's
    authorities. Raises `ConfigError` for a base URL that cannot work.
    """

    base_url: str
    api_key: str | None = field(default=None, repr=False)
    api_key_header: Literal["authorization", "api-key", "x-api-key"] = "authorization"
    api_version: str | None = None
    organization: str | None = None
    project: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    pass_headers: frozenset[str] = frozenset()
    timeouts: UpstreamTimeouts = field(default_factory=UpstreamTimeouts)
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    proxy: str | None = field(default=None, repr=False)
    verify: bool = True
    ca_bundle: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None
    connections: int = 200
    keep_alive_s: float = 20.0
    max_response_bytes: int = 50_000_000
    max_event_bytes: int = 16_000_000
    max_error_bytes: int = 262_144
    finish_ends_stream: bool = True

    def __post_init__(self) -> None:
        if "@" in self.base_url.partition("?")[0]:
            raise ConfigError("base_url must not hold credentials; put the key into api_key, or headers")
        try:
            url = URL(self.base_url)
            usable = url.scheme in ("http", "https") and bool(url.host)
        except ValueError:
            usable = False
        if not usable:
            raise ConfigError(f"base_url must be an http:// or https:// address with a host, not {self.base_url!r}")

    @property
    def base_headers(self) -> dict[str, str]:
        """Headers of every request, lower-case names; holds the key, so it is never logged."""
        headers = {
            "accept": "application/json, text/event-stream",
            "accept-encoding": "gzip, deflate, br, zstd",
            "content-type": "application/json",
            "user-agent": USER_AGENT,
        }
        if self.organization:
            headers["openai-organization"] = self.organization
        if self.project:
            headers["openai-project"] = self.project
        if self.api_key:
            bearer = self.api_key_header == "authorization"
            headers[self.api_key_header] = f"Bearer {self.api_key}" if bearer else self.api_key
        headers.update((name.lower(), value) for name, value in self.headers.items())
        return headers


class Addresses:
    """Paths of the gateway to URLs of the upstream. No path leads out of the base URL."""

    __slots__ = ("_known", "_origin", "_prefix", "_query")

    def __init__(self, settings: OpenAISettings) -> None:
        base = URL(settings.base_url)
        self._origin = str(base.origin())
        self._prefix = self._origin + base.raw_path.rstrip("/")
        parts = [base.raw_query_string] if base.raw_query_string else []
        if settings.api_version:
            parts.append(str(URL.build(query={"api-version": settings.api_version}))[1:])
        self._query = "&".join(parts)
        self._known: dict[str, URL] = {}

    @property
    def origin(self) -> str:
        """Scheme, host and port, for messages."""
        return self._origin

    def url(self, path: str) -> URL:
        """URL of a request path such as `/v1/chat/completions` or `/v1/files?limit=2`. Raises `RequestError`."""
        known = self._known.get(path)
        if known is None:
            known = self._built(path)
            if "?" not in path and len(self._known) < 64:
                self._known[path] = known
        return known

    def _built(self, path: str) -> URL:
        bare, _, query = path.partition("?")
        decoded = URL.build(path=bare, encoded=True).path if bare.startswith("/") else ""
        segments = decoded.replace("\\", "/").split("/")
        printable = path.isascii() and path.isprintable() and " " not in path and "#" not in path
        if not decoded or not printable or ".." in segments or "." in segments or bare.startswith("//"):
            raise RequestError(f"the path {path[:200]!r} cannot be sent to the upstream", code="invalid_path")
        if bare.startswith("/v1/"):
            bare = bare[3:]
        query = "&".join(part for part in (self._query, query) if part)
        return URL(self._prefix + bare + (f"?{query}" if query else ""), encoded=True)


def tls_context(settings: OpenAISettings) -> ssl.SSLContext | bool:
    """What `aiohttp` takes as `ssl`. Reads the files; raises `ConfigError` naming the one that does not work."""
    if not settings.verify and settings.client_certificate is None:
        return False
    if settings.ca_bundle is None and settings.client_certificate is None:
        return True
    try:
        context = ssl.create_default_context(cafile=settings.ca_bundle)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(f"ca_bundle {settings.ca_bundle}: {exc}; give a file of PEM certificates") from exc
    if settings.client_certificate is not None:
        try:
            context.load_cert_chain(settings.client_certificate, settings.client_key)
        except (OSError, ssl.SSLError) as exc:
            raise ConfigError(
                f"client_certificate {settings.client_certificate}, client_key {settings.client_key}: {exc}; "
                "give PEM files of a certificate and of its own, unencrypted key"
            ) from exc
    if not settings.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
