"""Alembic migrations of the ledger; packaged, so that `grounding-gateway migrate` works from the wheel.

Revisions are numbered and form one line. Each file says in its name and in `PHASE` when it belongs: a `pre` revision
may run while the previous release still serves (it only adds), a `post` revision runs once no process of the previous
release is left (it may take away). `migrate(url, phase="pre")` before a rollout and `migrate(url)` after it change the
schema without downtime; a single process just calls `migrate(url)`.

Revisions are SQL and import nothing of the packages: what they did must not change when the code does.
"""

from migrations.run import Phase, current, migrate, missing, pending

__all__ = ["Phase", "current", "migrate", "missing", "pending"]
