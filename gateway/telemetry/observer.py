"""Feeds metrics and logs from what happens in an exchange."""

from __future__ import annotations

import structlog

from checks.types import Verdict
from gateway.errors import GatewayError
from gateway.telemetry.metrics import Metrics

# Errors that say all there is to say; for others the traceback is the news.
_EXPECTED = (GatewayError, TimeoutError, ConnectionError)


class TelemetryObserver:
    """Told of stages, verdicts and problems by the exchange."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def stage(self, route: str, stage: str, seconds: float) -> None:
        """A stage took so long."""
        self._metrics.stage(route, stage, seconds)

    def verdict(self, route: str, verdict: Verdict) -> None:
        """A verdict on one choice."""
        self._metrics.verdict(route, verdict)

    def drift(self, route: str, *, drifted: bool) -> None:
        """A route's facts do not look like those of its calibration any more, or do again."""
        self._metrics.drift(route, drifted=drifted)
        logger = structlog.get_logger("gateway")
        if drifted:
            logger.warning("scores_drifted", route=route, effect="block acts as annotate until they agree again")
        else:
            logger.info("scores_agree_again", route=route)

    def problem(self, event: str, error: BaseException, **fields: str) -> None:
        """Something failed that the exchange goes on without, or ends by."""
        self._metrics.problem(event)
        logger = structlog.get_logger("gateway")
        what = {**fields, "error_type": type(error).__name__, "error": str(error)}
        if isinstance(error, _EXPECTED):
            logger.warning(event, **what)
        else:
            logger.error(event, exc_info=error, **what)
