"""Fixtures of the gateway's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """No log lines in the output of tests."""
    before = structlog.get_config()
    structlog.configure(processors=[structlog.testing.LogCapture()])
    yield
    structlog.configure(**before)
