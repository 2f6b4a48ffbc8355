"""`grounding-gateway keys`: keys in the database (create, list, revoke, rotate), and hashes for the configuration."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any, Final

import typer

from gateway.access.keys import MIN_KEY_LENGTH, key_digest, new_key
from gateway.cli.commands import AsJson, ConfigFile, located
from gateway.cli.output import USAGE, emit, fail

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Make and end API keys.")


KeyId = Annotated[str, typer.Argument(metavar="ID", help="The key's id, as records and logs name it.")]
_SPAN: Final = re.compile(r"(\d+)(s|m|h|d)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


@app.callback()
def _group() -> None:
    pass


@app.command("create")
def create(
    key_id: KeyId,
    config: ConfigFile = None,
    owner: Annotated[str, typer.Option(help="Whose it is, for people.")] = "",
    route: Annotated[list[str] | None, typer.Option("--route", "-r", help="A route; default: all.")] = None,
    group: Annotated[list[str] | None, typer.Option("--group", help="A group, for documents of groups.")] = None,
    audit: Annotated[bool, typer.Option("--audit", help="May read recorded exchanges of its routes.")] = False,
    expires: Annotated[str | None, typer.Option(help="When it ends by itself, e.g. 90d, 12h.")] = None,
    requests_per_minute: Annotated[int | None, typer.Option(min=1)] = None,
    tokens_per_minute: Annotated[int | None, typer.Option(min=1)] = None,
    budget_tokens: Annotated[int | None, typer.Option(min=1)] = None,
    budget_usd: Annotated[float | None, typer.Option(min=0, help="By the configuration's prices.")] = None,
    budget_per: Annotated[str, typer.Option(help="day, month or total.")] = "month",
    as_json: AsJson = False,
) -> None:
    """Make a key in the ledger's database and show it once. Gateways know it within seconds."""
    from gateway.cli import stored_keys

    limits = _given(requests_per_minute=requests_per_minute, tokens_per_minute=tokens_per_minute)
    budget = _given(tokens=budget_tokens, usd=budget_usd)
    settings = _given(
        routes=route or None,
        groups=group or None,
        audit=audit or None,
        limits=limits or None,
        budget={**budget, "per": budget_per} if budget else None,
    )
    lasts_s = None if expires is None else _span(expires)
    wanted = stored_keys.Wanted(id=key_id, owner=owner, lasts_s=lasts_s, settings=settings)
    stored_keys.create(located(config), wanted, as_json=as_json)


@app.command("list")
def list_keys(
    config: ConfigFile = None,
    ended: Annotated[bool, typer.Option("--ended", help="Also those that have ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Keys in the database: owner, routes, limits, end; of the key itself only how it begins."""
    from gateway.cli import stored_keys

    stored_keys.listing(located(config), ended=ended, as_json=as_json)


@app.command("revoke")
def revoke(key_id: KeyId, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """End a key at once. Exit code 1 when there is none of that id."""
    from gateway.cli import stored_keys

    stored_keys.revoke(located(config), key_id, as_json=as_json)


@app.command("rotate")
def rotate(
    key_id: KeyId,
    config: ConfigFile = None,
    grace: Annotated[str, typer.Option(help="How long the old key goes on, e.g. 24h.")] = "0s",
    as_json: AsJson = False,
) -> None:
    """Make a new key with the settings of an old one, which ends after a while."""
    from gateway.cli import stored_keys

    stored_keys.rotate(located(config), key_id, grace_s=_span(grace), as_json=as_json)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _span(text: str) -> float:
    """Seconds of a span such as `90d`."""
    found = _SPAN.fullmatch(text)
    if found is None:
        fail(f"'{text}' is no span of time", "write a number and s, m, h or d, e.g. 90d", USAGE)
    return float(int(found[1]) * _SECONDS[found[2]])


@app.command("hash")
def hash_key(
    name: Annotated[str, typer.Option("--id", help="The key's id, as records and logs name it.")] = "client",
    stdin: Annotated[bool, typer.Option("--stdin", help="Hash the key on standard input instead.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a key and print it once, with its entry for `keys:` of the configuration. Only the SHA-256 is stored."""
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
