-- Stops pending messages at once; they were locked in the order of their ids before. Answers the
-- batches they were of.
WITH gone AS (
    DELETE FROM {schema}.message m WHERE m.id = ANY($1::uuid[]) AND m.state + 0 = 0 RETURNING m.*
), kept AS (
    INSERT INTO {schema}.history (message, due_at, ended_at, planned_at, created_at, attempt, crashes,
        snoozes, source, priority, state, exclusive, topic, queue, key, job, dedupe, body, extra, error,
        batch, progress, checkpoint)
    SELECT id, due_at, $2, planned_at, created_at, attempt, crashes,
        snoozes, source, priority, 4, exclusive, topic, queue, key, job, dedupe, body, extra, error,
        batch, progress, checkpoint
    FROM gone
)
SELECT DISTINCT batch FROM gone WHERE batch IS NOT NULL
