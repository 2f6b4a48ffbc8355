"""People's labels: who gave each, and what each of them says by now.

A label is never changed; a later one of the same person on the same thing takes its place in the view `labels`. Labels
from before this revision have no labeller.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

PHASE = "pre"

CURRENT = """
CREATE VIEW ledger.labels AS
SELECT DISTINCT ON (created_at, exchange_id, check_position, fact_position, labeller)
    created_at, exchange_id, check_position, fact_position, labeller, id, labelled_at, label, source, comment
FROM (SELECT l.created_at, l.exchange_id, l.fact_position, l.labeller, l.id, l.labelled_at, l.label, l.source,
        l.comment, coalesce(l.check_position, 0) AS check_position
    FROM ledger.label l) l
ORDER BY created_at, exchange_id, check_position, fact_position, labeller, labelled_at DESC, id DESC
"""


def upgrade() -> None:
    op.execute("ALTER TABLE ledger.label ADD COLUMN labeller text COLLATE \"C\" NOT NULL DEFAULT ''")
    op.execute(CURRENT)
    op.execute("COMMENT ON VIEW ledger.labels IS 'the newest label of each labeller on each fact or answer'")


def downgrade() -> None:
    op.execute("DROP VIEW ledger.labels")
    op.execute("ALTER TABLE ledger.label DROP COLUMN labeller")
