"""Runs the migrations from Python, over asyncpg, under an advisory lock.

Does not know what the revisions do, where the URL comes from, or who waits.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import Script

SCHEMA: Final = "ledger"
_REVISIONS: Final = Path(__file__).parent / "versions"
# Any number will do, as long as every release uses the same one.
_LOCK_KEY: Final = 0x67_72_6E_64


Result = TypeVar("Result")


class Phase(StrEnum):
    """How far to go: `pre` stops before the first revision that must wait for the end of a rollout."""

    PRE = "pre"
    ALL = "all"


async def migrate(url: str, *, phase: Phase | str = Phase.ALL) -> list[str]:
    """Bring the schema up to date and return the revisions that ran, oldest first.

    Several processes may call this at once: one runs, the others wait and find nothing to do. Each revision is one
    transaction with its entry in the version table. Raises `sqlalchemy.exc.SQLAlchemyError` or `OSError`.
    """
    return await _run(url, lambda connection: _upgrade(connection, Phase(phase)))


async def pending(url: str) -> list[str]:
    """Revisions that have not run, oldest first. Changes nothing."""
    return await _run(url, lambda connection: [script.revision for script in _pending(connection)])


async def missing(url: str) -> list[str]:
    """Revisions that this release needs before it can serve, and that have not run: those up to the first `post` one.

    Changes nothing. Raises `ConnectionError` when the database cannot be asked.
    """
    try:
        scripts = await _run(url, _pending)
    except (DBAPIError, OSError) as error:
        raise ConnectionError(str(getattr(error, "orig", None) or error)) from error
    return [script.revision for script in takewhile(lambda script: script.module.PHASE == "pre", scripts)]


async def current(url: str) -> str | None:
    """The newest revision that ran; None for an empty database. Changes nothing."""
    return await _run(url, _current)


async def _run(url: str, call: Callable[[Connection], Result]) -> Result:
    target = make_url(url).set(drivername="postgresql+asyncpg")
    if "sslmode" in target.query:  # libpq's name for what asyncpg calls `ssl`
        target = target.difference_update_query(["sslmode"]).update_query_dict({"ssl": target.query["sslmode"]})
    engine = create_async_engine(target, poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(call)
    finally:
        await engine.dispose()


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config


def _current(connection: Connection) -> str | None:
    exists = connection.execute(text("SELECT to_regclass('ledger.alembic_version') IS NOT NULL")).scalar_one()
    if not exists:
        return None
    return cast("str | None", connection.execute(text("SELECT version_num FROM ledger.alembic_version")).scalar())


def _newest() -> str:
    """The last revision, by the numbers of the files."""
    return max(path.name.partition("_")[0] for path in _REVISIONS.glob("[0-9]*.py"))


def _pending(connection: Connection) -> list[Script]:
    at = _current(connection)
    if at == _newest():  # as at nearly every start, which then does without Alembic
        return []
    from alembic.script import ScriptDirectory

    scripts: list[Script] = []
    for script in ScriptDirectory.from_config(_config()).walk_revisions():  # newest first
        if script.revision == at:
            break
        scripts.append(script)
    return scripts[::-1]


def _upgrade(connection: Connection, phase: Phase) -> list[str]:
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _LOCK_KEY})
    connection.commit()
    try:
        done: list[str] = []
        waiting = _pending(connection)
        if not waiting:
            return done
        from alembic import command

        for script in waiting:
            if phase is Phase.PRE and script.module.PHASE == "post":
                break
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, script.revision)
            done.append(script.revision)
        return done
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK_KEY})
        connection.commit()
