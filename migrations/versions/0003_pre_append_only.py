"""Verdicts are appended, never changed: the database refuses it; and views that tools for reports may read.

Triggers on the partitioned tables, which every partition gets with its month. Nothing of a verdict can be updated or
deleted row by row; of what a conversation said (`body`, `fact_body`, `judge_body`) nothing can be updated, but rows can
be deleted, which is how a person's words are erased. Whole months still go by dropping their partitions, which only the
tables' owner can do; the owner could also take the triggers away. Inserting costs nothing more.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

PHASE = "pre"

APPENDED = "exchange attempt passage source check_result fact evidence judge_call label"
ERASABLE = "body fact_body judge_body"

REFUSE = """
CREATE FUNCTION ledger.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on ledger.% is refused: the ledger is append-only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege',
        HINT = 'words of a conversation are erased by deleting from body, fact_body and judge_body';
END
$$
"""

VERDICTS = """
CREATE VIEW ledger.verdicts AS
SELECT e.created_at, e.id AS exchange_id, e.route, e.key_id, e.model, e.upstream, e.upstream_model, e.config_version,
    e.outcome, e.status AS http_status, e.stream, e.release, e.retrieval_status, e.check_status, e.check_reason,
    c.position AS check_position, c.choice, c.attempt, c.kind, c.status, c.reason, c.action, c.rule, c.score,
    (e.seconds ->> 'total')::double precision AS total_seconds,
    (e.seconds ->> 'check')::double precision AS check_seconds
FROM ledger.exchange e
LEFT JOIN ledger.check_result c ON c.created_at = e.created_at AND c.exchange_id = e.id
"""

FACTS = """
CREATE VIEW ledger.facts AS
SELECT e.created_at, e.id AS exchange_id, e.route, e.key_id, e.model, e.upstream_model, e.config_version,
    f.check_position, f.position, c.choice, c.attempt, c.kind, f.status, f.label, f.reason, f.score, f.rule,
    f.start_offset, f.end_offset,
    (SELECT count(*) FROM ledger.evidence v WHERE v.created_at = f.created_at AND v.exchange_id = f.exchange_id
        AND v.check_position = f.check_position AND v.fact_position = f.position) AS evidences,
    (SELECT l.label FROM ledger.label l WHERE l.created_at = f.created_at AND l.exchange_id = f.exchange_id
        AND coalesce(l.check_position, 0) = f.check_position AND l.fact_position = f.position
        ORDER BY l.labelled_at DESC, l.id DESC LIMIT 1) AS newest_label
FROM ledger.fact f
JOIN ledger.exchange e ON e.created_at = f.created_at AND e.id = f.exchange_id
JOIN ledger.check_result c
    ON c.created_at = f.created_at AND c.exchange_id = f.exchange_id AND c.position = f.check_position
"""


def upgrade() -> None:
    op.execute(REFUSE)
    for tables, events in ((APPENDED, "UPDATE OR DELETE"), (ERASABLE, "UPDATE")):
        for table in tables.split():
            op.execute(
                f"CREATE TRIGGER append_only BEFORE {events} ON ledger.{table} "
                "FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change()"
            )
    op.execute(VERDICTS)
    op.execute("COMMENT ON VIEW ledger.verdicts IS 'a row a check, or one for an exchange without; no texts'")
    op.execute(FACTS)
    op.execute("COMMENT ON VIEW ledger.facts IS 'a row a fact or issue, with its newest label; no texts'")


def downgrade() -> None:
    op.execute("DROP VIEW ledger.facts")
    op.execute("DROP VIEW ledger.verdicts")
    for table in (*APPENDED.split(), *ERASABLE.split()):
        op.execute(f"DROP TRIGGER append_only ON ledger.{table}")
    op.execute("DROP FUNCTION ledger.refuse_change()")
