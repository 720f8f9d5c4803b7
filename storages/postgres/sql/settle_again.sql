-- Due again. One whose cancel was asked for meanwhile is only looked at.
WITH given AS (
    SELECT * FROM unnest($1::uuid[], $2::int8[], $3::timestamptz[], $4::int4[], $5::int4[], $6::int4[],
        $7::text[]) WITH ORDINALITY AS g(id, token, due_at, attempt, crashes, snoozes, error, n)
), current AS MATERIALIZED (
    SELECT g.*, m.cancel_requested, m.queue, m.job
    FROM given g JOIN {schema}.message m ON m.id = g.id AND m.token = g.token AND m.state = 1
    ORDER BY m.id
    FOR UPDATE OF m
), back AS (
    UPDATE {schema}.message m
    SET state = 0, due_at = c.due_at, attempt = c.attempt, crashes = c.crashes, snoozes = c.snoozes,
        error = coalesce(c.error, m.error), owner = NULL, token = NULL, lease_until = NULL
    FROM current c
    WHERE m.id = c.id AND NOT c.cancel_requested
), told AS (
    INSERT INTO {schema}.execution (id, message, process, due_at, started_at, ended_at, nominal, attempt,
        attempts_max, source, ending, topic, queue, key, job, note)
    SELECT e.id, e.message, e.process, e.due_at, e.started_at, e.ended_at, e.nominal, e.attempt,
        e.attempts_max, e.source, e.ending, e.topic, e.queue, e.key, e.job, e.note
    FROM unnest($8::int8[], $9::uuid[], $10::uuid[], $11::uuid[], $12::timestamptz[], $13::timestamptz[],
        $14::timestamptz[], $15::timestamptz[], $16::int4[], $17::int4[], $18::int2[], $19::int2[],
        $20::text[], $21::text[], $22::text[], $23::text[], $24::text[])
        AS e(n, id, message, process, due_at, started_at, ended_at, nominal, attempt,
             attempts_max, source, ending, topic, queue, key, job, note)
    WHERE e.n IN (SELECT n FROM current WHERE NOT cancel_requested)
    {once}
)
SELECT n, job, queue, cancel_requested FROM current
