"""Environment variables inside configuration values: `${NAME}`, `${NAME:-default}`, and `$$` for a dollar sign. Pure.

As in a shell, `:-` also applies to a variable that is set but empty. What a variable holds is never expanded again and
never parsed as YAML. A dollar sign before anything else stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

# The default runs to the next closing brace. An opening without a proper name and end is caught by the last branch.
_REFERENCE: Final = re.compile(
    r"\$(?:(?P<escaped>\$)|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}|\{)"
)

UPSTREAM_CHOICE: Final = "GATEWAY_UPSTREAM"


class ExpansionError(ValueError):
    """A reference cannot be expanded; the message names it and says what to do."""


def with_derived(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment plus the one variable that the gateway derives from others.

    `GATEWAY_UPSTREAM`, unless set, is `openai` when `OPENAI_API_KEY` or `UPSTREAM_BASE_URL` holds something, else
    `extractive`. A configuration with upstreams of these two names thus uses a real model as soon as there is one.
    """
    if environ.get(UPSTREAM_CHOICE):
        return environ
    real = environ.get("OPENAI_API_KEY") or environ.get("UPSTREAM_BASE_URL")
    return {**environ, UPSTREAM_CHOICE: "openai" if real else "extractive"}


def expand(text: str, environ: Mapping[str, str]) -> str:
    """`text` with every reference replaced. Raises `ExpansionError`."""
    if "$" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        name = match["name"]
        if name is None:
            raise ExpansionError(
                "`${` must be followed by a variable's name and `}`, e.g. ${NAME} or ${NAME:-default}; "
                "write $${ for the characters themselves"
            )
        found = environ.get(name)
        default = match["default"]
        if default is not None:
            return found or default
        if found is None:
            raise ExpansionError(
                f"the environment variable {name} is not set; set it, or give a default: ${{{name}:-value}}"
            )
        return found

    return _REFERENCE.sub(value, text)
