"""The ledger's SQL. `store` and `retention` run it.

A batch is one statement with one parameter, a JSON array of stored records, which Postgres takes apart: the gateway's
process does not spend its own time on rows. Whatever belongs to an exchange is inserted with it or not at all, and only
if the exchange was not there yet: so a batch may be sent any number of times.
"""

from __future__ import annotations

from typing import Final

INSERT_BATCH: Final = """
WITH incoming AS MATERIALIZED (
    SELECT to_timestamp(x.created_at) AS at, x.*
    FROM ROWS FROM (jsonb_to_recordset(CAST(:records AS jsonb)) AS (
        id text, created_at float8, route text, path text, outcome text, status int, key_id text, request_id text,
        model text, upstream_model text, upstream text, stream bool, release text, action text, config_version text,
        body_policy text, retrieval_status text, retrieval_detail text, query text, check_status text,
        check_reason text, error_code text, error_message text, request_body text, sent_body text, answer_body text,
        answer jsonb, finish_reasons jsonb, usage jsonb, seconds jsonb, sources jsonb, checks jsonb, attempts jsonb
    )) WITH ORDINALITY AS x(
        id, created_at, route, path, outcome, status, key_id, request_id,
        model, upstream_model, upstream, stream, release, action, config_version,
        body_policy, retrieval_status, retrieval_detail, query, check_status,
        check_reason, error_code, error_message, request_body, sent_body, answer_body,
        answer, finish_reasons, usage, seconds, sources, checks, attempts, nth)
), inserted AS (
    INSERT INTO ledger.exchange (
        created_at, id, route, path, outcome, status, key_id, request_id, model, upstream, upstream_model, stream,
        release, action, config_version, body_policy, retrieval_status, retrieval_detail, check_status, check_reason,
        error_code, error_message, finish_reasons, usage, seconds)
    SELECT at, id, route, path, outcome, status, key_id, request_id, model, upstream, upstream_model, stream,
        release, action, config_version, body_policy, retrieval_status, retrieval_detail, check_status, check_reason,
        error_code, error_message, finish_reasons, usage, seconds
    FROM incoming ORDER BY at, id, nth
    ON CONFLICT DO NOTHING
    RETURNING created_at, id
), fresh AS MATERIALIZED (
    SELECT DISTINCT ON (i.at, i.id) i.*
    FROM incoming i JOIN inserted n ON n.created_at = i.at AND n.id = i.id
    ORDER BY i.at, i.id, i.nth
), bodies AS (
    INSERT INTO ledger.body (created_at, exchange_id, query, request, sent, answer, answers)
    SELECT at, id, query, request_body, nullif(sent_body, ''), answer_body, answer FROM fresh
    WHERE query <> '' OR request_body <> '' OR sent_body <> '' OR answer_body <> '' OR answer <> '{}'
), tries AS (
    INSERT INTO ledger.attempt (created_at, exchange_id, position, upstream, status, seconds, error)
    SELECT f.at, f.id, a.nth - 1, a.upstream, a.status, coalesce(a.seconds, 0), a.error
    FROM fresh f, ROWS FROM (jsonb_to_recordset(f.attempts) AS (
        upstream text, status int, seconds float8, error text
    )) WITH ORDINALITY AS a(upstream, status, seconds, error, nth)
), seen AS MATERIALIZED (
    SELECT f.at, f.id, s.*, CASE WHEN s.text <> '' THEN sha256(convert_to(s.text, 'UTF8')) END AS hash
    FROM fresh f, ROWS FROM (jsonb_to_recordset(f.sources) AS (
        number int, document_id text, passage_id text, title text, url text, score float8, start int, "end" int,
        sha256 text, text text, used_in_prompt bool
    )) WITH ORDINALITY AS s(
        number, document_id, passage_id, title, url, score, start, "end", sha256, text, used_in_prompt, nth)
), passages AS (
    INSERT INTO ledger.passage (created_at, hash, text)
    SELECT DISTINCT ON (date_trunc('month', at, 'UTC'), hash) date_trunc('month', at, 'UTC'), hash, text
    FROM seen WHERE hash IS NOT NULL ORDER BY 1, 2
    ON CONFLICT DO NOTHING
), sources AS (
    INSERT INTO ledger.source (created_at, exchange_id, position, number, document_id, passage_id, title, url, score,
        start_offset, end_offset, sha256, used_in_prompt, passage_hash)
    SELECT at, id, nth - 1, number, document_id, passage_id, title, url, score, start, "end", sha256, used_in_prompt,
        hash
    FROM seen
), verdicts AS MATERIALIZED (
    SELECT f.at, f.id, c.*
    FROM fresh f, ROWS FROM (jsonb_to_recordset(f.checks) AS (
        choice int, kind text, status text, action text, reason text, rule text, score float8, detail text,
        attempt int, facts jsonb, calls jsonb, versions jsonb, seconds jsonb, details jsonb
    )) WITH ORDINALITY AS c(
        choice, kind, status, action, reason, rule, score, detail, attempt, facts, calls, versions, seconds, details,
        nth)
), results AS (
    INSERT INTO ledger.check_result (created_at, exchange_id, position, choice, attempt, kind, status, reason, action,
        rule, score, detail, versions, seconds, details)
    SELECT at, id, nth - 1, choice, attempt, kind, status, reason, action, rule, score, detail, versions, seconds,
        coalesce(details, '{}')
    FROM verdicts
), stated AS MATERIALIZED (
    SELECT v.at, v.id, v.nth AS verdict, s.*
    FROM verdicts v, ROWS FROM (jsonb_to_recordset(v.facts) AS (
        position int, text text, start int, "end" int, status text, label text, reason text, probabilities float8[],
        score float8, questions jsonb, evidence jsonb, rule text, detail jsonb, issue jsonb
    )) WITH ORDINALITY AS s(
        given, text, start, "end", status, label, reason, probabilities, score, questions, evidence, rule, detail,
        issue, nth)
), facts AS (
    INSERT INTO ledger.fact (created_at, exchange_id, check_position, position, start_offset, end_offset, status, label,
        reason, probabilities, score, rule, issue)
    SELECT at, id, verdict - 1, given, start, "end", status, label, reason, probabilities, score, rule, issue
    FROM stated
), fact_bodies AS (
    INSERT INTO ledger.fact_body (created_at, exchange_id, check_position, position, text, questions, detail)
    SELECT at, id, verdict - 1, given, text, questions, detail FROM stated
    WHERE text <> '' OR questions <> '[]' OR detail <> '{}'
), evidence AS (
    INSERT INTO ledger.evidence (created_at, exchange_id, check_position, fact_position, position, source, label,
        probability, probabilities, score, quote, quote_start, quote_end)
    SELECT s.at, s.id, s.verdict - 1, s.given, e.nth - 1, e.source, e.label, e.probability, e.probabilities, e.score,
        e.quote, e.quote_start, e.quote_end
    FROM stated s, ROWS FROM (jsonb_to_recordset(s.evidence) AS (
        source int, label text, probability float8, probabilities float8[], score float8, quote text, quote_start int,
        quote_end int
    )) WITH ORDINALITY AS e(source, label, probability, probabilities, score, quote, quote_start, quote_end, nth)
), asked AS MATERIALIZED (
    SELECT v.at, v.id, v.nth AS verdict, c.*
    FROM verdicts v, ROWS FROM (jsonb_to_recordset(v.calls) AS (
        judge text, model text, purpose text, request text, reply text, prompt_tokens bigint, completion_tokens bigint,
        cost_usd float8, seconds float8, error text, fact_position int
    )) WITH ORDINALITY AS c(
        judge, model, purpose, request, reply, prompt_tokens, completion_tokens, cost_usd, seconds, error,
        fact_position, nth)
), calls AS (
    INSERT INTO ledger.judge_call (created_at, exchange_id, check_position, position, judge, model, purpose,
        fact_position, prompt_tokens, completion_tokens, cost_usd, seconds, error)
    SELECT at, id, verdict - 1, nth - 1, judge, model, purpose, fact_position, prompt_tokens, completion_tokens,
        cost_usd, seconds, error
    FROM asked
), call_bodies AS (
    INSERT INTO ledger.judge_body (created_at, exchange_id, check_position, position, request, reply)
    SELECT at, id, verdict - 1, nth - 1, request, reply FROM asked WHERE request <> '' OR reply <> ''
)
SELECT count(*) FROM inserted
"""

LIST_EXCHANGES: Final = """
SELECT jsonb_build_object(
    'id', e.id, 'created_at', e.created_at, 'route', e.route, 'path', e.path, 'outcome', e.outcome,
    'status', e.status, 'key_id', e.key_id, 'request_id', e.request_id, 'model', e.model, 'upstream', e.upstream,
    'upstream_model', e.upstream_model, 'stream', e.stream, 'release', e.release, 'action', e.action,
    'retrieval_status', e.retrieval_status, 'check_status', e.check_status, 'check_reason', e.check_reason,
    'error_code', e.error_code, 'usage', e.usage, 'seconds', e.seconds,
    'query', left(b.query, 200), 'answer', left(b.answers ->> '0', 200),
    'facts', f.total, 'facts_failed', f.failed, 'labels', l.total)::text,
    e.created_at, e.id
FROM (SELECT * FROM ledger.exchange WHERE {where} ORDER BY created_at DESC, id DESC LIMIT :limit) e
LEFT JOIN ledger.body b ON b.created_at = e.created_at AND b.exchange_id = e.id
CROSS JOIN LATERAL (
    SELECT count(*) AS total, count(*) FILTER (WHERE status = 'failed') AS failed FROM ledger.fact
    WHERE created_at = e.created_at AND exchange_id = e.id) f
CROSS JOIN LATERAL (
    SELECT count(*) AS total FROM ledger.label WHERE created_at = e.created_at AND exchange_id = e.id) l
ORDER BY e.created_at DESC, e.id DESC
"""

_OF_EXCHANGE = "{0}.created_at = e.created_at AND {0}.exchange_id = e.id"
_OF_CHECK = _OF_EXCHANGE + " AND {0}.check_position = c.position"
_WITHOUT_KEY = "- 'created_at' - 'exchange_id'"

GET_EXCHANGE: Final = f"""
SELECT (to_jsonb(e) || jsonb_build_object(
    'body', (SELECT jsonb_build_object('query', b.query, 'request', b.request, 'sent', coalesce(b.sent, b.request),
            'answer', b.answer, 'answers', b.answers)
        FROM ledger.body b WHERE {_OF_EXCHANGE.format("b")}),
    'attempts', (SELECT coalesce(jsonb_agg(to_jsonb(a) {_WITHOUT_KEY} ORDER BY a.position), '[]')
        FROM ledger.attempt a WHERE {_OF_EXCHANGE.format("a")}),
    'sources', (SELECT coalesce(jsonb_agg((to_jsonb(s) {_WITHOUT_KEY} - 'passage_hash' - 'position' - 'start_offset'
            - 'end_offset') || jsonb_build_object('text', coalesce(p.text, ''), 'start', s.start_offset,
            'end', s.end_offset) ORDER BY s.position), '[]')
        FROM ledger.source s LEFT JOIN ledger.passage p
            ON p.created_at = date_trunc('month', e.created_at, 'UTC') AND p.hash = s.passage_hash
        WHERE {_OF_EXCHANGE.format("s")}),
    'checks', (SELECT coalesce(jsonb_agg((to_jsonb(c) {_WITHOUT_KEY}) || jsonb_build_object(
        'facts', (SELECT coalesce(jsonb_agg((to_jsonb(f) {_WITHOUT_KEY} - 'check_position' - 'start_offset'
                - 'end_offset') || jsonb_build_object('start', f.start_offset, 'end', f.end_offset,
                'text', coalesce(t.text, ''), 'questions', coalesce(t.questions, '[]'),
                'detail', coalesce(t.detail, '{{}}'),
                'evidence', (SELECT coalesce(jsonb_agg(to_jsonb(v) {_WITHOUT_KEY} - 'check_position'
                        - 'fact_position' - 'position' ORDER BY v.position), '[]')
                    FROM ledger.evidence v WHERE {_OF_CHECK.format("v")} AND v.fact_position = f.position))
                ORDER BY f.position), '[]')
            FROM ledger.fact f LEFT JOIN ledger.fact_body t
                ON {_OF_CHECK.format("t")} AND t.position = f.position
            WHERE {_OF_CHECK.format("f")}),
        'calls', (SELECT coalesce(jsonb_agg((to_jsonb(j) {_WITHOUT_KEY} - 'check_position')
                || jsonb_build_object('request', coalesce(w.request, ''), 'reply', coalesce(w.reply, ''))
                ORDER BY j.position), '[]')
            FROM ledger.judge_call j LEFT JOIN ledger.judge_body w
                ON {_OF_CHECK.format("w")} AND w.position = j.position
            WHERE {_OF_CHECK.format("j")})) ORDER BY c.position), '[]')
        FROM ledger.check_result c WHERE {_OF_EXCHANGE.format("c")}),
    'labels', (SELECT coalesce(jsonb_agg(to_jsonb(l) {_WITHOUT_KEY} ORDER BY l.labelled_at, l.id), '[]')
        FROM ledger.label l WHERE {_OF_EXCHANGE.format("l")})
))::text
FROM ledger.exchange e WHERE e.id = :id
ORDER BY e.created_at LIMIT 1
"""  # noqa: S608 - put together from the constants above

_ONE_EXCHANGE = "FROM ledger.exchange e WHERE e.id = :id"
assert _ONE_EXCHANGE in GET_EXCHANGE
_NEXT_EXCHANGES = """, e.created_at, e.id
FROM (SELECT * FROM ledger.exchange WHERE {where} ORDER BY created_at, id LIMIT :limit) e
ORDER BY e.created_at, e.id
"""
WHOLE_EXCHANGES: Final = GET_EXCHANGE.partition(_ONE_EXCHANGE)[0] + _NEXT_EXCHANGES

# The check that a label is on: the one named, or the last attempt of a choice.
LABEL_PLACE: Final = """
SELECT e.created_at, e.route, c.position, c.kind, f.position IS NOT NULL
FROM ledger.exchange e
LEFT JOIN ledger.check_result c ON c.created_at = e.created_at AND c.exchange_id = e.id
    AND CASE WHEN CAST(:check AS integer) IS NULL THEN c.choice = CAST(:choice AS integer)
        ELSE c.position = CAST(:check AS integer) END
LEFT JOIN ledger.fact f ON f.created_at = e.created_at AND f.exchange_id = e.id AND f.check_position = c.position
    AND f.position = CAST(:fact AS integer)
WHERE e.id = :id
ORDER BY c.attempt DESC NULLS LAST, c.position DESC LIMIT 1
"""
INSERT_LABEL: Final = """
INSERT INTO ledger.label (created_at, exchange_id, id, check_position, fact_position, label, source, comment, labeller)
VALUES (:created_at, :exchange_id, :id, :check_position, :fact_position, :label, :source, :comment, :labeller)
ON CONFLICT DO NOTHING
"""
_LABEL_COLUMNS = """jsonb_build_object('id', l.id, 'exchange_id', l.exchange_id, 'check', l.check_position,
    'fact', l.fact_position, 'label', l.label, 'source', l.source, 'comment', l.comment, 'labeller', l.labeller,
    'labelled_at', l.labelled_at)"""
LABELS_OF: Final = f"""
SELECT ({_LABEL_COLUMNS} || jsonb_build_object('current', EXISTS (
    SELECT FROM ledger.labels n WHERE n.created_at = l.created_at AND n.exchange_id = l.exchange_id AND n.id = l.id
)))::text
FROM ledger.label l WHERE l.exchange_id = :id AND l.created_at = :created_at ORDER BY l.labelled_at, l.id
"""  # noqa: S608 - put together from the constants above
CURRENT_LABELS: Final = f"""
SELECT ({_LABEL_COLUMNS} || jsonb_build_object('route', e.route, 'kind', c.kind, 'choice', c.choice,
    'verdict', coalesce(f.status, c.status), 'verdict_label', f.label))::text
FROM ledger.labels l
JOIN ledger.exchange e ON e.created_at = l.created_at AND e.id = l.exchange_id
LEFT JOIN ledger.check_result c ON c.created_at = l.created_at AND c.exchange_id = l.exchange_id
    AND c.position = l.check_position
LEFT JOIN ledger.fact f ON f.created_at = l.created_at AND f.exchange_id = l.exchange_id
    AND f.check_position = l.check_position AND f.position = l.fact_position
WHERE (CAST(:route AS text) IS NULL OR e.route = :route)
    AND (CAST(:since AS timestamptz) IS NULL OR l.created_at >= :since)
    AND (CAST(:until AS timestamptz) IS NULL OR l.created_at < :until)
ORDER BY l.created_at, l.exchange_id, l.check_position, l.fact_position NULLS LAST, l.labeller
"""  # noqa: S608 - put together from the constants above

# Facts as people are asked about them: of what was delivered, so of the last attempt of each choice.
_DELIVERED = """
FROM ledger.exchange e
JOIN ledger.check_result c ON c.created_at = e.created_at AND c.exchange_id = e.id
JOIN ledger.fact f ON f.created_at = e.created_at AND f.exchange_id = e.id AND f.check_position = c.position
WHERE (CAST(:route AS text) IS NULL OR e.route = :route)
    AND (CAST(:since AS timestamptz) IS NULL OR e.created_at >= :since)
    AND (CAST(:until AS timestamptz) IS NULL OR e.created_at < :until)
    AND NOT EXISTS (SELECT FROM ledger.check_result later WHERE later.created_at = c.created_at
        AND later.exchange_id = c.exchange_id AND later.choice = c.choice AND later.attempt > c.attempt)
"""
_SAME_FACT = """l.created_at = f.created_at AND l.exchange_id = f.exchange_id AND l.check_position = f.check_position
    AND l.fact_position = f.position"""
# What people, judges or passages do not agree about, most of all first.
_DISSENT = f"""CASE
    WHEN (SELECT count(DISTINCT l.label) FROM ledger.labels l WHERE {_SAME_FACT}) > 1 THEN 3
    WHEN EXISTS (SELECT FROM ledger.labels l WHERE {_SAME_FACT} AND l.label IS DISTINCT FROM f.label) THEN 2
    WHEN (SELECT count(DISTINCT v ->> 'label') FROM jsonb_array_elements(f.issue -> 'votes') v) > 1 THEN 1
    WHEN (SELECT bool_or(v.label = 'true') AND bool_or(v.label IN ('false', 'absurd')) FROM ledger.evidence v
        WHERE v.created_at = f.created_at AND v.exchange_id = f.exchange_id AND v.check_position = f.check_position
            AND v.fact_position = f.position) THEN 1
    ELSE 0 END"""  # noqa: S608 - put together from the constants above
_CHANCE = "md5(CAST(:seed AS text) || ':' || e.id || ':' || c.position || ':' || f.position)"
QUEUE_ORDERS: Final = {
    "uncertain": f"abs(f.score - 0.5) NULLS LAST, {_CHANCE}",
    "disagreement": f"{_DISSENT} DESC, abs(f.score - 0.5) NULLS LAST, {_CHANCE}",
    "random": _CHANCE,
}
LABEL_QUEUE: Final = f"""
SELECT e.id, c.position, f.position {_DELIVERED}
    AND f.rule <> 'states_nothing'
    AND EXISTS (SELECT FROM ledger.fact_body b WHERE b.created_at = f.created_at AND b.exchange_id = f.exchange_id
        AND b.check_position = f.check_position AND b.position = f.position AND b.text <> '')
    AND NOT EXISTS (SELECT FROM ledger.label l WHERE {_SAME_FACT} AND l.labeller = :labeller)
ORDER BY {{order}} LIMIT :limit
"""  # noqa: S608 - put together from the constants above
DRAW_SAMPLE: Final = f"""
SELECT id, check_position, fact_position, choice, kind, status, label, size FROM (
    SELECT e.id, c.position AS check_position, f.position AS fact_position, c.choice, c.kind, f.status, f.label,
        row_number() OVER (PARTITION BY f.status, f.label ORDER BY {_CHANCE}, e.id, c.position, f.position) AS nth,
        count(*) OVER (PARTITION BY f.status, f.label) AS size
    {_DELIVERED} AND f.status IN ('passed', 'failed') AND f.label IS NOT NULL) drawn
WHERE nth <= :count ORDER BY status, label, nth
"""  # noqa: S608 - put together from the constants above
# What a verdict was made of, to be put together anew: the seven probabilities of every passage of every fact.
REPLAY: Final = f"""
SELECT jsonb_build_object('exchange', d.id, 'choice', d.choice, 'status', d.status, 'reason', d.reason,
    'rule', d.rule, 'action', d.action, 'facts', (
    SELECT coalesce(jsonb_agg(jsonb_build_object('position', f.position, 'status', f.status, 'label', f.label,
        'reason', f.reason, 'rule', f.rule, 'score', f.score,
        'people', (SELECT coalesce(jsonb_agg(l.label), '[]') FROM ledger.labels l WHERE {_SAME_FACT}),
        'evidence', (SELECT coalesce(jsonb_agg(to_jsonb(v.probabilities) ORDER BY v.position), '[]')
            FROM ledger.evidence v WHERE v.created_at = f.created_at AND v.exchange_id = f.exchange_id
                AND v.check_position = f.check_position AND v.fact_position = f.position
                AND v.probabilities IS NOT NULL)) ORDER BY f.position), '[]')
    FROM ledger.fact f WHERE f.created_at = d.created_at AND f.exchange_id = d.id
        AND f.check_position = d.position))::text, d.created_at, d.id, d.position
FROM (SELECT e.created_at, e.id, c.position, c.choice, c.status, c.reason, c.rule, c.action
    FROM ledger.exchange e
    JOIN ledger.check_result c ON c.created_at = e.created_at AND c.exchange_id = e.id
    WHERE e.route = :route AND c.kind = 'fact_check'
        AND (CAST(:since AS timestamptz) IS NULL OR e.created_at >= :since)
        AND (CAST(:until AS timestamptz) IS NULL OR e.created_at < :until)
        AND (e.created_at, e.id, c.position) > (:after_time, :after_id, :after_check)
        AND NOT EXISTS (SELECT FROM ledger.check_result later WHERE later.created_at = c.created_at
            AND later.exchange_id = c.exchange_id AND later.choice = c.choice AND later.attempt > c.attempt)
    ORDER BY e.created_at, e.id, c.position LIMIT :limit) d
ORDER BY d.created_at, d.id, d.position
"""  # noqa: S608 - put together from the constants above

EXCHANGE_TIME: Final = "SELECT created_at FROM ledger.exchange WHERE id = :id"
ERASE_BODY: Final = "DELETE FROM ledger.{table} WHERE created_at = :created_at AND exchange_id = :id"

LIST_PARTITIONS: Final = """
SELECT c.relname, i.inhrelid IS NOT NULL AS attached, coalesce(i.inhdetachpending, false)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
WHERE n.nspname = 'ledger' AND c.relkind = 'r' ORDER BY c.relname
"""
# Made apart and attached: CREATE ... PARTITION OF would lock out every reader and writer of the table.
CREATE_PARTITION: Final = "CREATE TABLE IF NOT EXISTS ledger.{name} (LIKE ledger.{table} INCLUDING DEFAULTS)"
ATTACH_PARTITION: Final = (
    "ALTER TABLE ledger.{table} ATTACH PARTITION ledger.{name} "
    "FOR VALUES FROM ('{start} 00:00:00+00') TO ('{end} 00:00:00+00')"
)
DETACH_PARTITION: Final = "ALTER TABLE ledger.{table} DETACH PARTITION ledger.{name} CONCURRENTLY"
FINISH_DETACH: Final = "ALTER TABLE ledger.{table} DETACH PARTITION ledger.{name} FINALIZE"
DROP_PARTITION: Final = "DROP TABLE IF EXISTS ledger.{name}"
# One number for everything that changes partitions.
LOCK_PARTITIONS: Final = "SELECT pg_advisory_lock(1735552612)"
UNLOCK_PARTITIONS: Final = "SELECT pg_advisory_unlock(1735552612)"
PING: Final = "SELECT 1"
