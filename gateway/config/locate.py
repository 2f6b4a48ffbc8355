"""Finds the configuration file: the one named, else `$GATEWAY_CONFIG`, else `gateway.yaml` in the working folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gateway.errors import ConfigError

FILE_NAME: Final = "gateway.yaml"
VARIABLE: Final = "GATEWAY_CONFIG"


def locate(given: Path | None, environ: Mapping[str, str], folder: Path) -> Path:
    """The configuration file to read. Raises `ConfigError` when nothing names one; does not look into it."""
    if given is not None:
        return given
    named = environ.get(VARIABLE)
    if named:
        return Path(named)
    if (folder / FILE_NAME).is_file():
        return Path(FILE_NAME)
    text = (
        f"no configuration: there is no {FILE_NAME} in {folder}; pass --config FILE, set {VARIABLE}, "
        "or start from examples/quickstart/gateway.yaml"
    )
    raise ConfigError(text, problems=(text,))
