-- Given up: out of the hot table, to the dead letters, with the execution.
-- A message is found by its id among the sorted ids of the batch, never by a join: a plan made while
-- the table was empty would walk all running messages for each of the batch. `state + 0` keeps the
-- partial indexes out for the same reason.
WITH gone AS (
    DELETE FROM {schema}.message m
    WHERE m.id = ANY($1::uuid[]) AND m.state + 0 = 1
      AND m.token = ($2::int8[])[width_bucket(m.id, $1::uuid[])]
    RETURNING width_bucket(m.id, $1::uuid[]) AS n, m.*
), kept AS (
    INSERT INTO {schema}.dead (id, queue, topic, priority, source, exclusive, due_at, planned_at,
        created_at, ended_at, attempt, crashes, snoozes, reason, key, dedupe, job, body, extra, error)
    SELECT id, queue, topic, priority, source, exclusive, due_at, planned_at,
        created_at, $5, attempt, crashes, snoozes, ($3::int2[])[n], key, dedupe, job, body, extra,
        coalesce(($4::text[])[n], error)
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
SELECT n::int8, job FROM gone
