"""What a code review's verdicts keep beside those of facts.

`fact.issue` is NULL for a fact of a chat answer. Both columns have a value to fall back on, so that the release before
goes on writing beside this one; on a partitioned table every partition gets them, without a rewrite.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

PHASE = "pre"


def upgrade() -> None:
    op.execute("ALTER TABLE ledger.fact ADD COLUMN issue jsonb")
    op.execute("ALTER TABLE ledger.check_result ADD COLUMN details jsonb NOT NULL DEFAULT '{}'")
    op.execute(
        "COMMENT ON COLUMN ledger.fact.issue IS "
        "'of an issue: path, lines, severity, action, votes, hops, files, evidence, cost'"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE ledger.check_result DROP COLUMN details")
    op.execute("ALTER TABLE ledger.fact DROP COLUMN issue")
