SELECT j.name, j.record::text,
    (SELECT count(*) FROM {schema}.message m WHERE m.job = j.name
        AND (m.state = 1 OR m.due_at <= $1 OR (m.due_at < timestamptz '9999-12-30 22:00:00+00'
            AND (m.attempt > 0 OR m.snoozes > 0 OR m.crashes > 0)))) AS alive
FROM {schema}.job j
WHERE j.due_at <= $1
ORDER BY j.due_at, j.name
LIMIT $2
