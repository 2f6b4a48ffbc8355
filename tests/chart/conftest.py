"""Helm, unpacked once for the session."""

from __future__ import annotations

import pytest

from tests.chart.helm import Helm, unpack_helm


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    folder = tmp_path_factory.mktemp("helm")
    return Helm(unpack_helm(folder), folder)
