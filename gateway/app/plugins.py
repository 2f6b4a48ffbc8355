"""Parts from other packages, found by their entry points (`grounding_gateway.<kind>`)."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from gateway.errors import ConfigError
from retrieval.load import default_loaders
from retrieval.types import Loader


def load_plugin(kind: str, name: str) -> Any:
    """The factory that another package offers as `name`; raises `ConfigError` naming those that are installed."""
    found = entry_points(group=f"grounding_gateway.{kind}")
    for entry in found:
        if entry.name == name:
            return entry.load()
    names = ", ".join(sorted(entry.name for entry in found)) or "none"
    raise ConfigError(
        f"no installed package offers '{name}' in the entry point group grounding_gateway.{kind} (installed: {names}); "
        "install the package that does"
    )


def extra_loaders() -> tuple[Loader, ...]:
    """The shipped loaders and those of other packages; empty when there are no others, which means the shipped ones."""
    found = entry_points(group="grounding_gateway.loaders")
    return (*default_loaders(), *(entry.load()() for entry in found)) if found else ()
