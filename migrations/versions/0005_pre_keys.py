"""Keys, and what they have used.

A key is a row that never changes; that it ended is another row. So a role that may only append can make and revoke
keys, and who had which key when stays known. What a key has used is one row a key, which only the two functions change:
they run as the tables' owner, so a role that may only append can call them.
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

PHASE = "pre"

KEYS = """
CREATE TABLE ledger.api_key (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sha256 text NOT NULL UNIQUE CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    id text NOT NULL,
    prefix text NOT NULL,
    owner text NOT NULL DEFAULT '',
    settings jsonb NOT NULL,
    expires_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
ENDS = """
CREATE TABLE ledger.api_key_end (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sha256 text NOT NULL REFERENCES ledger.api_key (sha256),
    ends_at timestamptz NOT NULL,
    why text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
STANDING = """
CREATE VIEW ledger.api_keys AS
SELECT k.sha256, k.id, k.prefix, k.owner, k.settings, k.created_at,
    least(k.expires_at, (SELECT min(e.ends_at) FROM ledger.api_key_end e WHERE e.sha256 = k.sha256)) AS ends_at
FROM ledger.api_key k
"""
USE = """
CREATE TABLE ledger.key_use (
    key_id text PRIMARY KEY,
    requests_until double precision NOT NULL DEFAULT 0,
    tokens_until double precision NOT NULL DEFAULT 0,
    period double precision NOT NULL DEFAULT 0,
    tokens double precision NOT NULL DEFAULT 0,
    usd double precision NOT NULL DEFAULT 0
) WITH (fillfactor = 50)
"""
# The arithmetic is that of gateway.quota; the clock is the database's, so that all replicas have the same one.
ADMIT = """
CREATE FUNCTION ledger.admit_use(
    p_key text, p_request_s double precision, p_token_s double precision, p_tokens double precision,
    p_usd double precision, p_budget_tokens double precision, p_budget_usd double precision, p_per text
) RETURNS double precision[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = ledger, pg_temp AS $$
DECLARE
    u ledger.key_use;
    clock timestamptz;
    t double precision;
    p double precision;
    r double precision;
    k double precision;
    granted boolean;
BEGIN
    SELECT * INTO u FROM ledger.key_use WHERE key_id = p_key FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO ledger.key_use (key_id) VALUES (p_key) ON CONFLICT DO NOTHING;
        SELECT * INTO u FROM ledger.key_use WHERE key_id = p_key FOR UPDATE;
    END IF;
    clock := clock_timestamp();
    t := extract(epoch FROM clock);
    p := CASE p_per WHEN 'total' THEN 0 ELSE extract(epoch FROM date_trunc(p_per, clock, 'UTC')) END;
    IF u.period <> p THEN
        u.period := p;
        u.tokens := 0;
        u.usd := 0;
    END IF;
    r := greatest(u.requests_until, t) + p_request_s;
    k := greatest(u.tokens_until, t) + p_token_s;
    granted := (p_request_s = 0 OR r - t <= 60.000001) AND (p_token_s = 0 OR k - t <= 60.000001)
        AND (p_budget_tokens IS NULL OR u.tokens < p_budget_tokens)
        AND (p_budget_usd IS NULL OR u.usd < p_budget_usd);
    IF granted THEN
        u.requests_until := r;
        u.tokens_until := k;
        u.tokens := u.tokens + p_tokens;
        u.usd := u.usd + p_usd;
        UPDATE ledger.key_use SET requests_until = u.requests_until, tokens_until = u.tokens_until,
            period = u.period, tokens = u.tokens, usd = u.usd WHERE key_id = p_key;
    END IF;
    RETURN ARRAY[granted::integer, t, u.requests_until, u.tokens_until, u.period, u.tokens, u.usd];
END
$$
"""
CORRECT = """
CREATE FUNCTION ledger.correct_use(p_corrections jsonb)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = ledger, pg_temp AS $$
DECLARE
    c record;
BEGIN
    -- In one order everywhere, so that two workers never wait for each other.
    FOR c IN
        SELECT * FROM jsonb_to_recordset(p_corrections)
            AS x(key_id text, seconds double precision, tokens double precision, usd double precision)
        ORDER BY key_id
    LOOP
        INSERT INTO ledger.key_use (key_id) VALUES (c.key_id) ON CONFLICT DO NOTHING;
        UPDATE ledger.key_use SET
            tokens_until = c.seconds + CASE WHEN c.seconds > 0
                THEN greatest(tokens_until, extract(epoch FROM clock_timestamp())) ELSE tokens_until END,
            tokens = greatest(0, tokens + c.tokens),
            usd = greatest(0, usd + c.usd)
        WHERE key_id = c.key_id;
    END LOOP;
END
$$
"""


def upgrade() -> None:
    op.execute(KEYS)
    op.execute("CREATE INDEX api_key_id ON ledger.api_key (id)")
    op.execute(ENDS)
    op.execute("CREATE INDEX api_key_end_sha256 ON ledger.api_key_end (sha256, ends_at)")
    for table in ("api_key", "api_key_end"):
        op.execute(
            f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON ledger.{table} "
            "FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change()"
        )
    op.execute(STANDING)
    op.execute("COMMENT ON VIEW ledger.api_keys IS 'every key with its end; digests only'")
    op.execute(USE)
    op.execute(ADMIT)
    op.execute(CORRECT)


def downgrade() -> None:
    op.execute("DROP FUNCTION ledger.correct_use")
    op.execute("DROP FUNCTION ledger.admit_use")
    op.execute("DROP VIEW ledger.api_keys")
    for table in ("key_use", "api_key_end", "api_key"):
        op.execute(f"DROP TABLE ledger.{table}")
