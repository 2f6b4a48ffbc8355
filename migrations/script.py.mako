"""${message}."""

from __future__ import annotations

from alembic import op

revision = "${up_revision}"
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None

PHASE = "pre"  # or "post": runs once no process of the previous release is left


def upgrade() -> None:
    op.execute("")


def downgrade() -> None:
    op.execute("")
