"""Errors of the gateway. Each leaf carries its HTTP status and the error type of the OpenAI envelope.

GatewayError
├── ConfigError               wrong configuration; carries every problem found, each with file, line and remedy
├── RequestError         400  the client's request cannot be served as it stands
│   ├── AuthenticationError   401
│   ├── PermissionDeniedError 403
│   ├── NotFoundError         404
│   └── TooLargeError         413
├── RateLimitedError     429  the key has used up what it may use for now
├── GroundingFailedError 422  the answer was blocked by its verdict
├── RetrievalFailedError 502  retrieval failed and the route refuses to answer without it
├── OverloadedError      503  a bounded queue is full, or the ledger's spool is
├── LedgerError               the ledger or its database
│   ├── LedgerUnavailableError 503  the database cannot be reached or used now
│   ├── RecordRefusedError        the database will never take this record
│   └── EmbeddedPostgresError     the Postgres we start does not start, or is not ours to start
└── UpstreamError             the upstream failed
    ├── UpstreamStatusError   it answered with an error: its status, headers and body pass through
    ├── UpstreamUnreachableError 502  no connection, TLS or DNS failure
    ├── UpstreamUnavailableError 503  every upstream of a pool is resting after failures; none was asked
    ├── UpstreamTimeoutError  504  connect, first byte, idle or total time ran out
    └── UpstreamProtocolError 502  it answered with something that is not the protocol, or was cut
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class GatewayError(Exception):
    """Base of all errors of this package. `code` is stable for programs, the message is for people."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    retry: ClassVar[bool | None] = None
    """What `x-should-retry` says; None leaves the client's own rule in force."""

    def __init__(self, message: str, *, code: str = "internal_error", param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param

    def envelope(self) -> dict[str, Any]:
        """The OpenAI error object: `{"error": {"message", "type", "param", "code"}}`."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


class ConfigError(GatewayError):
    """The configuration is wrong; the message lists every problem with file, line, key and remedy."""

    retry = False

    def __init__(self, message: str, *, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message, code="invalid_configuration")
        self.problems = problems


class RequestError(GatewayError):
    """The request cannot be served as it stands."""

    status = 400
    type = "invalid_request_error"
    retry = False

    def __init__(self, message: str, *, code: str = "invalid_request", param: str | None = None) -> None:
        super().__init__(message, code=code, param=param)


class AuthenticationError(RequestError):
    """No key, or a key we do not know."""

    status = 401
    type = "authentication_error"

    def __init__(self, message: str) -> None:
        super().__init__(message, code="invalid_api_key")


class PermissionDeniedError(RequestError):
    """The key may not use this."""

    status = 403
    type = "permission_error"

    def __init__(self, message: str, *, code: str = "permission_denied", param: str | None = None) -> None:
        super().__init__(message, code=code, param=param)


class NotFoundError(RequestError):
    """No such route, model, exchange or passage (or the caller may not know that there is one)."""

    status = 404

    def __init__(self, message: str, *, code: str = "not_found", param: str | None = None) -> None:
        super().__init__(message, code=code, param=param)


class TooLargeError(RequestError):
    """The body is over the limit."""

    status = 413

    def __init__(self, message: str) -> None:
        super().__init__(message, code="request_too_large")


class GroundingFailedError(GatewayError):
    """The answer was blocked by its verdict. `grounding` is the verdict without the rejected text."""

    status = 422
    type = "invalid_request_error"
    retry = False

    def __init__(self, message: str, *, grounding: Mapping[str, Any], code: str = "grounding_failed") -> None:
        super().__init__(message, code=code)
        self.grounding = grounding

    def envelope(self) -> dict[str, Any]:
        body = super().envelope()
        body["error"]["grounding"] = self.grounding
        return body


class RateLimitedError(GatewayError):
    """The key has used up what it may use for now. `retry_after` is in seconds, None for never; `headers` say more."""

    status = 429

    def __init__(
        self, message: str, *, code: str, kind: str, retry_after: int | None, headers: Mapping[str, str]
    ) -> None:
        super().__init__(message, code=code)
        self.kind = kind
        self.retry_after = retry_after
        self.headers = headers

    def envelope(self) -> dict[str, Any]:
        body = super().envelope()
        body["error"]["type"] = self.kind
        return body


class RetrievalFailedError(GatewayError):
    """Retrieval failed, and the route refuses to answer without it."""

    status = 502

    def __init__(self, message: str) -> None:
        super().__init__(message, code="retrieval_failed")


class OverloadedError(GatewayError):
    """Too much at once; `retry_after` is in seconds."""

    status = 503
    retry = True

    def __init__(self, message: str, *, code: str = "overloaded", retry_after: int = 1) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class LedgerError(GatewayError):
    """The ledger or its database. `sqlstate` is Postgres' own code, "" when it did not come to that."""

    def __init__(self, message: str, *, sqlstate: str = "", code: str = "ledger_error") -> None:
        super().__init__(message, code=code)
        self.sqlstate = sqlstate


class LedgerUnavailableError(LedgerError):
    """The database cannot be reached, or cannot be used as it is; later it may."""

    status = 503
    retry = True

    def __init__(self, message: str, *, sqlstate: str = "") -> None:
        super().__init__(message, sqlstate=sqlstate, code="ledger_unavailable")


class RecordRefusedError(LedgerError):
    """The database will never take this record, or one of these records."""

    def __init__(self, message: str, *, sqlstate: str = "") -> None:
        super().__init__(message, sqlstate=sqlstate, code="record_refused")


class EmbeddedPostgresError(LedgerError):
    """The Postgres we start does not start; the message says why and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="embedded_postgres")


class UpstreamError(GatewayError):
    """The upstream failed. `attempts` says how many times it was tried, `tries` how each of them ended.

    A try is (upstream, status, seconds, error code); there are none when the answer failed after it had begun.
    """

    status = 502
    attempts: int = 1
    tries: tuple[tuple[str, int | None, float, str], ...] = ()

    def __init__(self, message: str, *, code: str = "upstream_error") -> None:
        super().__init__(message, code=code)


class UpstreamStatusError(UpstreamError):
    """The upstream answered with an error: its status, headers and body reach the client as they came."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        super().__init__(f"the upstream answered with status {status}", code="upstream_status")
        self.upstream_status = status
        self.body = body
        self.headers = headers


class UpstreamUnreachableError(UpstreamError):
    """No connection to the upstream: DNS, TCP or TLS."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="upstream_unreachable")


class UpstreamUnavailableError(UpstreamError):
    """Nobody of a pool may be asked now; `retry_after` is in seconds."""

    status = 503
    retry = True

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(message, code="upstream_unavailable")
        self.retry_after = retry_after


class UpstreamTimeoutError(UpstreamError):
    """A time limit of the upstream ran out; the message says which."""

    status = 504

    def __init__(self, message: str) -> None:
        super().__init__(message, code="upstream_timeout")


class UpstreamProtocolError(UpstreamError):
    """The upstream's answer is not the protocol, carried an error inside a success, or was cut short.

    `body` is the upstream's own error object where it sent one.
    """

    def __init__(self, message: str, *, body: bytes = b"", code: str = "upstream_protocol") -> None:
        super().__init__(message, code=code)
        self.body = body
