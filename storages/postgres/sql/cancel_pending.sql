-- Cancels pending messages, which were locked in the order of their ids before. Returns the batches they
-- belonged to.
WITH deleted AS (
    DELETE FROM {schema}.message m WHERE m.id = ANY($1::uuid[]) AND m.state + 0 = 0 RETURNING m.*
), inserted AS (
    INSERT INTO {schema}.history (message, due_at, ended_at, planned_at, created_at, attempt, crashes,
        snoozes, source, priority, state, exclusive, topic, queue, key, job, dedupe, body, extra, error,
        batch, progress, checkpoint)
    SELECT id, due_at, $2, planned_at, created_at, attempt, crashes,
        snoozes, source, priority, 4, exclusive, topic, queue, key, job, dedupe, body, extra, error,
        batch, progress, checkpoint
    FROM deleted
)
SELECT DISTINCT batch FROM deleted WHERE batch IS NOT NULL
