-- Due again. One whose cancel was asked for meanwhile is only looked at.
-- A message is found by its id among the sorted ids of the batch, never by a join: a plan made while
-- the table was empty would walk all running messages for each of the batch. `state + 0` keeps the
-- partial indexes out for the same reason.
WITH current AS MATERIALIZED (
    SELECT width_bucket(m.id, $1::uuid[]) AS n, m.ctid AS place, m.cancel_requested, m.queue, m.job
    FROM {schema}.message m
    WHERE m.id = ANY($1::uuid[]) AND m.state + 0 = 1
      AND m.token = ($2::int8[])[width_bucket(m.id, $1::uuid[])]
    ORDER BY m.id
    FOR UPDATE OF m
), back AS (
    UPDATE {schema}.message m
    SET state = 0, due_at = ($3::timestamptz[])[c.n], attempt = ($4::int4[])[c.n],
        crashes = ($5::int4[])[c.n], snoozes = ($6::int4[])[c.n],
        error = coalesce(($7::text[])[c.n], m.error), owner = NULL, token = NULL, lease_until = NULL
    FROM current c
    WHERE m.ctid = c.place AND NOT c.cancel_requested
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
SELECT n::int8, job, queue, cancel_requested FROM current
