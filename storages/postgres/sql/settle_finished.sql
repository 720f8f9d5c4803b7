-- Moves done and cancelled messages out of the hot table into the history, each with its attempt in one row.
-- Fields of the attempt that the message contains are not sent; an array without values is empty and reads as
-- NULL.
WITH ended AS (
    {delete_running}
), inserted AS (
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
    FROM ended
)
SELECT n::int8, job, lane, batch FROM ended
