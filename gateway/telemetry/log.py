"""Logging: structlog set up once per process, credentials removed from every line, one summary line per exchange.

Lines go to standard error, as JSON or for a person's eyes. The standard library's loggers (uvicorn, sqlalchemy) end in
the same lines. Texts of prompts and answers are never logged: a rejected answer must not leave through a log.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, Final, Literal, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from gateway.redact import REDACTED, redact
from gateway.telemetry.views import ExchangeView, tokens

Format = Literal["auto", "json", "console"]
Level = Literal["debug", "info", "warning", "error"]

REQUEST_ID_HEADER: Final = "x-request-id"

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_SECRET_NAMES: Final = frozenset(
    {
        "api_key",
        "authorization",
        "cookie",
        "database_url",
        "password",
        "proxy",
        "redis_url",
        "secret",
        "token",
        "x_api_key",
    }
)
# Set on events whose every free text has been redacted already: a search of the whole line takes as long as the rest.
_CLEAN: Final = "_clean"
_LOUD: Final = frozenset({"upstream_error", "internal_error"})
_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


def configure(log_format: Format = "auto", level: Level = "info", stream: TextIO | None = None) -> None:
    """Set logging up for this process. `auto` is for a person when the stream is a terminal, else JSON."""
    out = stream if stream is not None else sys.stderr
    console = log_format == "console" or (log_format == "auto" and out.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    render = structlog.dev.ConsoleRenderer(colors=out.isatty()) if console else _render_json
    rendering: list[Processor] = [structlog.processors.format_exc_info, hide_named_secrets, _redacting(render)]
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(_number(level)),
        logger_factory=_Loggers(out, plain=not console),
        cache_logger_on_first_use=False,
    )
    _exchange_logger.cache_clear()
    _configure_standard_library(shared, rendering, level, out)


class _Loggers(structlog.WriteLoggerFactory):
    """structlog's factory of loggers that write, with its output; `plain` says that lines are JSON."""

    def __init__(self, out: TextIO, *, plain: bool) -> None:
        super().__init__(file=out)
        self.out = out
        self.plain = plain


def _configure_standard_library(
    shared: Sequence[Processor], rendering: Sequence[Processor], level: Level, out: TextIO
) -> None:
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(_number(level))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers = []
        logger.propagate = name != "uvicorn.access"
    # Statements with their values, and one line per poll of the watched folders.
    for name in ("sqlalchemy", "watchfiles", "httpx", "httpx2", "aiohttp.access"):
        logging.getLogger(name).setLevel(max(logging.WARNING, _number(level)))


def _number(level: Level) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


def _render_json(logger: WrappedLogger, method: str, event: EventDict) -> str:
    return _encode(event).decode()


def _redacting(render: Callable[[WrappedLogger, str, EventDict], str]) -> Processor:
    """Renders a line and replaces what has a credential's shape, in exceptions and nested values too."""

    def processor(logger: WrappedLogger, method: str, event: EventDict) -> str:
        clean = event.pop(_CLEAN, False)
        line = render(logger, method, event)
        return line if clean else redact(line)

    return processor


def hide_named_secrets(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Replace values whose name says that they are credentials."""
    for name in event.keys() & _SECRET_NAMES:
        event[name] = REDACTED
    return event


def request_id(given: str | None, fresh: Callable[[], str]) -> str:
    """The client's request id if it is one (up to 128 plain characters), else a fresh one."""
    return given if given is not None and _REQUEST_ID.fullmatch(given) else fresh()


def exchange(record: ExchangeView) -> None:
    """The one line of an exchange that ends now."""
    exchanges([(record, time.time())])


def exchanges(ended: Sequence[tuple[ExchangeView, float]]) -> None:
    """The one line of each exchange, with the time (epoch seconds) when it ended.

    What it was, how it ended, where its time went. No text of it.
    """
    logger, out = _exchange_logger()
    lines: list[str] = []
    for record, at in ended:
        loud = record.outcome in _LOUD
        if not logger.is_enabled_for(logging.WARNING if loud else logging.INFO):
            continue
        fields = _fields(record)
        if out is not None:
            fields["event"] = "exchange"
            fields["level"] = "warning" if loud else "info"
            fields["timestamp"] = datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
            lines.append(_encode(fields).decode() + "\n")
        else:
            (logger.warning if loud else logger.info)("exchange", **{_CLEAN: True}, **fields)
    if out is not None and lines:
        out.write("".join(lines))
        out.flush()


@lru_cache(maxsize=256)
def _redacted(name: str) -> str:
    """A name that comes again and again, without credentials."""
    return redact(name)


def _fields(record: ExchangeView) -> dict[str, Any]:
    prompt, cached, completion = tokens(record.usage)
    fields: dict[str, Any] = {
        "id": record.id,
        "route": record.route,
        "outcome": record.outcome,
        "status": record.status,
        "model": _redacted(record.model) if record.model else None,
        "upstream": record.upstream,
        "stream": record.stream,
        "release": record.release,
        "action": record.action,
        "retrieval": record.retrieval_status,
        "sources": len(record.sources),
        "check": record.check_status,
        "facts_failed": sum(fact.status == "failed" for check in record.checks for fact in check.facts),
        "attempts": len(record.attempts),
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "completion_tokens": completion,
    }
    if record.check_reason:
        fields["reason"] = record.check_reason
    if record.error_code:
        fields["error"] = redact(record.error_code)
    if record.key_id:
        fields["key"] = record.key_id
    if record.request_id:
        fields["request_id"] = redact(record.request_id)
    for stage, seconds in record.seconds.items():
        fields[f"{stage}_ms"] = round(seconds * 1000, 2)
    return fields


@cache
def _exchange_logger() -> tuple[FilteringBoundLogger, TextIO | None]:
    """Assembled once per configuration: doing so takes longer than writing a line.

    With it the output itself where lines are JSON: structlog's way there takes four times as long as the line's making.
    """
    logger: FilteringBoundLogger = structlog.get_logger("gateway.exchange").bind()
    factory = structlog.get_config()["logger_factory"]
    return logger, factory.out if isinstance(factory, _Loggers) and factory.plain else None
