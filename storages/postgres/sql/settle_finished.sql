-- Done and cancelled: out of the hot table, into the history with the attempt, as one row. A message of
-- a batch is left alone unless that is said to be dealt with in the same transaction.
-- A message is found by its id among the sorted ids of the batch, never by a join: a plan made while
-- the table was empty would walk all running messages for each of the batch. `state + 0` keeps the
-- partial indexes out for the same reason. What the message knows of its attempt is not sent; an array
-- in which nothing is set is empty and reads as NULL.
WITH gone AS (
    DELETE FROM {schema}.message m
    WHERE m.id = ANY($1::uuid[]) AND m.state + 0 = 1
      AND m.token = ($2::int8[])[width_bucket(m.id, $1::uuid[])]
      AND (m.batch IS NULL OR $14)
    RETURNING width_bucket(m.id, $1::uuid[]) AS n, m.*
), kept AS (
    INSERT INTO {schema}.history (id, message, process, due_at, started_at, ended_at, nominal,
        planned_at, created_at, attempt, attempts_max, crashes, snoozes, source, ending, priority, state,
        exclusive, topic, queue, key, job, note, dedupe, body, extra, error, log,
        batch, progress, checkpoint)
    SELECT {id}, id, ($4::uuid[])[n], due_at, ($5::timestamptz[])[n],
        coalesce(($6::timestamptz[])[n], $13), ($7::timestamptz[])[n],
        planned_at, created_at, attempt, ($8::int4[])[n], crashes, snoozes, source, ($9::int2[])[n],
        priority, ($12::int2[])[n],
        exclusive, topic, queue, key, job, ($10::text[])[n], dedupe, body, extra, error,
        ($11::text[])[n], batch, progress, checkpoint
    FROM gone
)
SELECT n::int8, job, lane, batch FROM gone
