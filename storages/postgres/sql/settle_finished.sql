-- Done and cancelled: out of the hot table, into the history, with the execution; one statement.
-- A message is found by its id among the sorted ids of the batch, never by a join: a plan made while
-- the table was empty would walk all running messages for each of the batch. `state + 0` keeps the
-- partial indexes out for the same reason.
WITH gone AS (
    DELETE FROM {schema}.message m
    WHERE m.id = ANY($1::uuid[]) AND m.state + 0 = 1
      AND m.token = ($2::int8[])[width_bucket(m.id, $1::uuid[])]
    RETURNING width_bucket(m.id, $1::uuid[]) AS n, m.*
), kept AS (
    INSERT INTO {schema}.finished (id, queue, topic, priority, state, source, exclusive, due_at,
        planned_at, created_at, ended_at, attempt, crashes, snoozes, key, dedupe, job, body, extra, error)
    SELECT id, queue, topic, priority, ($3::int2[])[n], source, exclusive, due_at,
        planned_at, created_at, $4, attempt, crashes, snoozes, key, dedupe, job, body, extra, error
    FROM gone
), told AS (
    INSERT INTO {schema}.execution (id, message, process, due_at, started_at, ended_at, nominal, attempt,
        attempts_max, source, ending, topic, queue, key, job, note)
    SELECT e.id, e.message, e.process, e.due_at, e.started_at, e.ended_at, e.nominal, e.attempt,
        e.attempts_max, e.source, e.ending, e.topic, e.queue, e.key, e.job, e.note
    FROM unnest($5::int8[], $6::uuid[], $7::uuid[], $8::uuid[], $9::timestamptz[], $10::timestamptz[],
        $11::timestamptz[], $12::timestamptz[], $13::int4[], $14::int4[], $15::int2[], $16::int2[],
        $17::text[], $18::text[], $19::text[], $20::text[], $21::text[])
        AS e(n, id, message, process, due_at, started_at, ended_at, nominal, attempt,
             attempts_max, source, ending, topic, queue, key, job, note)
    WHERE e.n IN (SELECT n FROM gone)
    {once}
)
SELECT n::int8, job FROM gone
