-- The earliest message of each queue that need not wait for its turn: one short walk per priority.
SELECT l.n, (
    SELECT min(first.due_at)
    FROM generate_series(0, 9) AS level(priority)
    CROSS JOIN LATERAL (
        SELECT m.due_at
        FROM {schema}.message m
        WHERE m.state = 0 AND m.queue = l.queue AND m.priority = level.priority
          AND (NOT m.exclusive OR m.job IS NULL OR
               (SELECT 1 FROM {schema}.message r WHERE r.job = m.job AND r.state + 0 = 1 LIMIT 1) IS NULL)
          AND (m.source <> 1 OR m.job IS NULL
               OR (SELECT j.paused FROM {schema}.job j WHERE j.name = m.job) IS NOT TRUE)
        ORDER BY m.due_at, m.id
        LIMIT 1
    ) AS first
) AS due_at, (SELECT min(j.due_at) FROM {schema}.job j WHERE j.due_at IS NOT NULL) AS jobs_due_at
FROM unnest($1::text[]) WITH ORDINALITY AS l(queue, n)
