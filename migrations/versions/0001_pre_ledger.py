"""The ledger's tables.

Every table carries the exchange's own creation time and is partitioned by it, month by month, so that all rows of an
exchange lie in partitions of one month and are dropped together; hence no foreign keys, and no orphans either. There is
no default partition: it would take rows of months nobody created a partition for, and those could never get one again
without moving them.

Text of a conversation stands only in `body`, `fact_body` and `judge_body`: erasing it is deleting there.
A passage's text is stored once a month, under its own hash, however often it is retrieved.
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

PHASE = "pre"

TABLES = """
CREATE TABLE ledger.exchange (
    created_at timestamptz NOT NULL,
    id text COLLATE "C" NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    route text NOT NULL,
    path text NOT NULL,
    outcome text NOT NULL,
    status integer NOT NULL,
    key_id text,
    request_id text,
    model text,
    upstream text NOT NULL,
    upstream_model text,
    stream boolean NOT NULL,
    release text NOT NULL,
    action text NOT NULL,
    config_version text NOT NULL,
    body_policy text NOT NULL,
    retrieval_status text NOT NULL,
    retrieval_detail text NOT NULL,
    check_status text NOT NULL,
    check_reason text,
    error_code text NOT NULL,
    error_message text NOT NULL,
    finish_reasons jsonb NOT NULL,
    usage jsonb NOT NULL,
    seconds jsonb NOT NULL,
    PRIMARY KEY (created_at, id)
) PARTITION BY RANGE (created_at);
CREATE INDEX ON ledger.exchange (id);
CREATE INDEX ON ledger.exchange (route, created_at, id);
CREATE INDEX ON ledger.exchange (key_id, created_at, id) WHERE key_id IS NOT NULL;
CREATE INDEX ON ledger.exchange (created_at, id) WHERE check_status = 'failed';
CREATE INDEX ON ledger.exchange (created_at, id) WHERE outcome <> 'completed';

CREATE TABLE ledger.body (
    created_at timestamptz NOT NULL,
    exchange_id text COLLATE "C" NOT NULL,
    query text NOT NULL,
    request text NOT NULL,
    sent text,
    answer text NOT NULL,
    answers jsonb NOT NULL,
    PRIMARY KEY (created_at, exchange_id)
) PARTITION BY RANGE (created_at);
COMMENT ON COLUMN ledger.body.sent IS 'what the upstream got; NULL when that was the request itself';

CREATE TABLE ledger.attempt (
    created_at timestamptz NOT NULL,
    exchange_id text COLLATE "C" NOT NULL,
    position integer NOT NULL,
    upstream text NOT NULL,
    status integer,
    seconds double precision NOT NULL,
    error text NOT NULL,
    PRIMARY KEY (created_at, exchange_id, position)
) PARTITION BY RANGE (created_at);

CREATE TABLE ledger.passage (
    created_at timestamptz NOT NULL,
    hash bytea NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (created_at, hash)
) PARTITION BY RANGE (created_at);
COMMENT ON COLUMN ledger.passage.created_at IS 'first instant (UTC) of the month of the exchanges that refer to it';
COMMENT ON COLUMN ledger.passage.hash IS 'SHA-256 of the text in UTF-8';

CREATE TABLE ledger.source (
    created_at timestamptz NOT NULL,
    exchange_id text COLLATE "C" NOT NULL,
    position integer NOT NULL,
    number integer NOT NULL,
    document_id text NOT NULL,
    passage_id text NOT NULL,
    title text NOT NULL,
    url text NOT NULL,
    score double precision,
    start_offset integer NOT NULL,
    end_offset integer NOT NULL,
    sha256 text NOT NULL,
    used_in_prompt boolean NOT NULL,
    passage_hash bytea,
    PRIMARY KEY (created_at, exchange_id, position)
) PARTITION BY RANGE (created_at);

CREATE TABLE ledger.check_result (
    created_at timestamptz NOT NULL,
    exchange_id text COLLATE "C" NOT NULL,
    position integer NOT NULL,
    choice integer NOT NULL,
    attempt integer NOT NULL,
    kind text NOT NULL,
    status text NOT NULL,
    reason text,
    action text NOT NULL,
    rule text NOT NULL,
    score double precision,
    detail text NOT NULL,
    versions jsonb NOT NULL,
    seconds jsonb NOT NULL,
    PRIMARY KEY (created_at, exchange_id, position)
) PARTITION BY RANGE (created_at);

CREATE TABLE ledger.fact (
    created_at timestamptz NOT NULL,
    exchange_id text COLLATE "C" NOT NULL,
    check_position integer NOT NULL,
    position integer NOT NULL,
    start_offset integer NOT NULL,
    end_offset integer NOT NULL,
    status text NOT NULL,
    label text,
    reason text,
    probabilities double precision[],
    score double precision,
    rule text NOT NULL,
    PRIMARY KEY (created_at, exchange_id, check_position, position)
) PARTITION BY RANGE (created_at);
COMMENT ON TABLE ledger.fact IS 'a fact of a chat answer, or an issue of a code review';

CREATE TABLE ledger.fact_body (
    created_at timestamptz NOT NULL,
    exchange_id text COLLATE "C" NOT NULL,
    check_position integer NOT NULL,
    position integer NOT NULL,
    text text NOT NULL,
    questions jsonb NOT NULL,
    detail jsonb NOT NULL,
    PRIMARY KEY (created_at, exchange_id, check_position, position)
) PARTITION BY RANGE (created_at);

CREATE TABLE ledger.evidence (
    created_at timestamptz NOT NULL,
    exchange_id text COLLATE "C" NOT NULL,
    check_position integer NOT NULL,
    fact_position integer NOT NULL,
    position integer NOT NULL,
    source integer NOT NULL,
    label text NOT NULL,
    probability double precision,
    probabilities double precision[],
    score double precision,
    quote text NOT NULL,
    quote_start integer NOT NULL,
    quote_end integer NOT NULL,
    PRIMARY KEY (created_at, exchange_id, check_position, fact_position, position)
) PARTITION BY RANGE (created_at);

CREATE TABLE ledger.judge_call (
    created_at timestamptz NOT NULL,
    exchange_id text COLLATE "C" NOT NULL,
    check_position integer NOT NULL,
    position integer NOT NULL,
    judge text NOT NULL,
    model text NOT NULL,
    purpose text NOT NULL,
    fact_position integer,
    prompt_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    cost_usd double precision,
    seconds double precision,
    error text NOT NULL,
    PRIMARY KEY (created_at, exchange_id, check_position, position)
) PARTITION BY RANGE (created_at);

CREATE TABLE ledger.judge_body (
    created_at timestamptz NOT NULL,
    exchange_id text COLLATE "C" NOT NULL,
    check_position integer NOT NULL,
    position integer NOT NULL,
    request text NOT NULL,
    reply text NOT NULL,
    PRIMARY KEY (created_at, exchange_id, check_position, position)
) PARTITION BY RANGE (created_at);

CREATE TABLE ledger.label (
    created_at timestamptz NOT NULL,
    exchange_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    labelled_at timestamptz NOT NULL DEFAULT now(),
    check_position integer,
    fact_position integer,
    label text NOT NULL,
    source text NOT NULL,
    comment text NOT NULL,
    PRIMARY KEY (created_at, exchange_id, id)
) PARTITION BY RANGE (created_at);
COMMENT ON COLUMN ledger.label.fact_position IS 'NULL: the label is on the whole answer';
"""


def upgrade() -> None:
    for statement in TABLES.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    names = "exchange body attempt passage source check_result fact fact_body evidence judge_call judge_body label"
    for table in names.split():
        op.execute(f"DROP TABLE ledger.{table}")
