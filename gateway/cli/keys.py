"""`grounding-gateway keys`: make a key, or hash one that exists, for the configuration."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from gateway.access.keys import MIN_KEY_LENGTH, key_digest, new_key
from gateway.cli.output import USAGE, emit, fail

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Make API keys for the configuration.")


@app.callback()
def _group() -> None:
    pass


@app.command("hash")
def hash_key(
    name: Annotated[str, typer.Option("--id", help="The key's id, as records and logs name it.")] = "client",
    stdin: Annotated[bool, typer.Option("--stdin", help="Hash the key on standard input instead.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a key and print it once, with its entry for `keys:`. Only the SHA-256 is ever stored."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]{0,62}", name):
        fail(f"'{name}' is no id", "use lower-case letters, digits, `.`, `_` and `-`", USAGE)
    key = _given_key() if stdin else new_key()
    digest = key_digest(key)
    entry = f"keys:\n  - id: {name}\n    sha256: {digest}\n    routes: ['*']"
    shown = {} if stdin else {"key": key}
    first = "" if stdin else f"{key}\n\nThis key is shown once and kept nowhere. The entry for gateway.yaml:\n\n"
    emit({**shown, "entry": {"id": name, "sha256": digest, "routes": ["*"]}}, as_json=as_json, text=f"{first}{entry}")


def _given_key() -> str:
    """The key on standard input. A guessable one is refused: an unsalted hash does not protect it."""
    key = sys.stdin.readline().rstrip("\r\n")
    if len(key) < MIN_KEY_LENGTH or not key.isascii() or not key.isprintable() or " " in key:
        fail(
            f"a key needs at least {MIN_KEY_LENGTH} characters, printable ASCII without spaces",
            "leave --stdin out to get a random one",
            USAGE,
        )
    return key
