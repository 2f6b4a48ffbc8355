"""What operators see: logs (`log`), metrics (`Metrics`), and the observer that feeds both from an exchange.

Knows nothing of HTTP. Records are seen through the protocols of `gateway.telemetry.views`, so that this layer stays
below the ledger.
"""

from gateway.telemetry import log
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.observer import TelemetryObserver
from gateway.telemetry.telling import Telling

__all__ = ["Metrics", "TelemetryObserver", "Telling", "log"]
