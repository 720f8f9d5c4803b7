SELECT j.name, j.record::text,
    (SELECT count(*) FROM {schema}.message m WHERE m.job = j.name) AS alive
FROM {schema}.job j
WHERE j.due_at <= $1
ORDER BY j.due_at, j.name
LIMIT $2
