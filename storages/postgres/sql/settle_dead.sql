-- Moves messages out of the hot table to the dead letters, and their attempts to the history. A message of a
-- batch is skipped unless $15 states that the same transaction ends the batch. A message is found by its id
-- among the sorted ids of the batch, never by a join: a plan made while the table was empty would scan all
-- running messages for each of the batch. `state + 0` excludes the partial indexes for the same reason. Fields
-- of the attempt that the message contains are not sent; an array without values is empty and reads as NULL.
WITH deleted AS (
    DELETE FROM {schema}.message m
    WHERE m.id = ANY($1::uuid[]) AND m.state + 0 = 1
      AND m.token = ($2::int8[])[width_bucket(m.id, $1::uuid[])]
      AND (m.batch IS NULL OR $15)
    RETURNING width_bucket(m.id, $1::uuid[]) AS n, m.*
), inserted AS (
    INSERT INTO {schema}.dead (id, queue, topic, priority, source, exclusive, due_at, planned_at,
        created_at, ended_at, attempt, crashes, snoozes, reason, key, dedupe, job, body, extra, error,
        batch, progress, checkpoint)
    SELECT id, queue, topic, priority, source, exclusive, due_at, planned_at,
        created_at, $14, attempt, crashes, snoozes, ($12::int2[])[n], key, dedupe, job, body, extra,
        coalesce(($13::text[])[n], error), batch, progress, checkpoint
    FROM deleted
), appended AS (
    INSERT INTO {schema}.history (id, message, process, due_at, started_at, ended_at, nominal, attempt,
        attempts_max, source, ending, topic, queue, key, job, note, log)
    SELECT e.execution, id, ($4::uuid[])[n], due_at, ($5::timestamptz[])[n], ($6::timestamptz[])[n],
        ($7::timestamptz[])[n], attempt,
        ($8::int4[])[n], source, ($9::int2[])[n], topic, queue, key, job, ($10::text[])[n],
        ($11::text[])[n]
    FROM (SELECT {id} AS execution, deleted.* FROM deleted) AS e
    WHERE e.execution IS NOT NULL
)
SELECT n::int8, job, lane, batch FROM deleted
