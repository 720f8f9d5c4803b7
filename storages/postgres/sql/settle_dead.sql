-- Given up: out of the hot table, to the dead letters, with the execution.
WITH given AS (
    SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int2[], $4::text[]) WITH ORDINALITY
        AS g(id, token, reason, last_error, n)
), gone AS (
    DELETE FROM {schema}.message m
    USING given g
    WHERE m.id = g.id AND m.token = g.token AND m.state = 1
    RETURNING g.n, g.reason, g.last_error, m.*
), kept AS (
    INSERT INTO {schema}.dead (id, queue, topic, priority, source, exclusive, due_at, planned_at,
        created_at, ended_at, attempt, crashes, snoozes, reason, key, dedupe, job, body, extra, error)
    SELECT id, queue, topic, priority, source, exclusive, due_at, planned_at,
        created_at, $5, attempt, crashes, snoozes, reason, key, dedupe, job, body, extra,
        coalesce(last_error, error)
    FROM gone
), told AS (
    INSERT INTO {schema}.execution (id, message, process, due_at, started_at, ended_at, nominal, attempt,
        attempts_max, source, ending, topic, queue, key, job, note)
    SELECT e.id, e.message, e.process, e.due_at, e.started_at, e.ended_at, e.nominal, e.attempt,
        e.attempts_max, e.source, e.ending, e.topic, e.queue, e.key, e.job, e.note
    FROM unnest($6::int8[], $7::uuid[], $8::uuid[], $9::uuid[], $10::timestamptz[], $11::timestamptz[],
        $12::timestamptz[], $13::timestamptz[], $14::int4[], $15::int4[], $16::int2[], $17::int2[],
        $18::text[], $19::text[], $20::text[], $21::text[], $22::text[])
        AS e(n, id, message, process, due_at, started_at, ended_at, nominal, attempt,
             attempts_max, source, ending, topic, queue, key, job, note)
    WHERE e.n IN (SELECT n FROM gone)
    {once}
)
SELECT n, job FROM gone
