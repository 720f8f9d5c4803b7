-- Moves messages out of the hot table to the dead letters, and their attempts to the history. Fields of the
-- attempt that the message contains are not sent; an array without values is empty and reads as NULL.
WITH ended AS (
    {delete_running}
), inserted AS (
    INSERT INTO {schema}.dead (id, queue, topic, priority, source, exclusive, due_at, planned_at,
        created_at, ended_at, attempt, crashes, snoozes, reason, key, dedupe, job, body, extra, error,
        batch, progress, checkpoint)
    SELECT id, queue, topic, priority, source, exclusive, due_at, planned_at,
        created_at, $13, attempt, crashes, snoozes, ($12::int2[])[n], key, dedupe, job, body, extra,
        coalesce(($15::text[])[n], error), batch, progress, checkpoint
    FROM ended
), appended AS (
    {append_attempts}
)
SELECT n::int8, job, lane, batch FROM ended
