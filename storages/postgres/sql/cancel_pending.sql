-- Stops pending messages at once; they were locked in the order of their ids before.
WITH gone AS (
    DELETE FROM {schema}.message m WHERE m.id = ANY($1::uuid[]) AND m.state + 0 = 0 RETURNING m.*
), kept AS (
    INSERT INTO {schema}.finished (id, queue, topic, priority, state, source, exclusive, due_at,
        planned_at, created_at, ended_at, attempt, crashes, snoozes, key, dedupe, job, body, extra, error)
    SELECT id, queue, topic, priority, 4, source, exclusive, due_at,
        planned_at, created_at, $2, attempt, crashes, snoozes, key, dedupe, job, body, extra, error
    FROM gone
)
SELECT count(*) FROM gone
