-- The earliest message of each queue that need not wait for its turn: one short walk per priority, and
-- the same for messages that share limits, passing over those whose limit is reached. Where the first
-- hundred of a priority are a crowd over its limit, each limit is looked at for itself.
SELECT l.n, least((
    SELECT min(first.due_at)
    FROM generate_series(0, 9) AS level(priority)
    CROSS JOIN LATERAL (
        SELECT m.due_at
        FROM {schema}.message m
        WHERE m.state = 0 AND m.lane IS NULL AND m.queue = l.queue AND m.priority = level.priority
          AND {turn}
        ORDER BY m.due_at, m.id
        LIMIT 1
    ) AS first
), limited.due_at, CASE WHEN limited.is_crowded THEN (
    WITH RECURSIVE name AS (
        (SELECT m.lane, 1 AS n FROM {schema}.message m
         WHERE m.lane IS NOT NULL AND m.state = $2 ORDER BY m.lane LIMIT 1)
        UNION ALL
        SELECT (SELECT m.lane FROM {schema}.message m
                WHERE m.lane > f.lane AND m.state = $2 ORDER BY m.lane LIMIT 1), f.n + 1
        FROM name f
        WHERE f.lane IS NOT NULL AND f.n < 10000
    )
    SELECT min(m.due_at)
    FROM (SELECT f.lane,
              (SELECT count(*) FROM {schema}.message r WHERE r.lane = f.lane AND r.state > 0) AS running
          FROM name f WHERE f.lane IS NOT NULL) AS f
    CROSS JOIN generate_series(0, 9) AS level(priority)
    CROSS JOIN LATERAL (
        SELECT m.due_at, m.lane_max
        FROM {schema}.message m
        WHERE m.lane = f.lane AND m.state = $2 AND m.queue = l.queue AND m.priority = level.priority
          AND {turn}
        ORDER BY m.due_at, m.id
        LIMIT 100
    ) AS m
    WHERE f.running < m.lane_max
) END) AS due_at, (SELECT min(j.due_at) FROM {schema}.job j WHERE j.due_at IS NOT NULL) AS jobs_due_at
FROM unnest($1::text[]) WITH ORDINALITY AS l(queue, n)
CROSS JOIN LATERAL (
    SELECT min(level.due_at) AS due_at, bool_or(level.due_at IS NULL AND level.is_crowd) AS is_crowded
    FROM (
        SELECT min(near.due_at) FILTER (WHERE near.is_free) AS due_at, count(*) >= 100 AS is_crowd
        FROM generate_series(0, 9) AS level(priority)
        CROSS JOIN LATERAL (
            SELECT m.due_at,
                (SELECT count(*) FROM {schema}.message r WHERE r.lane = m.lane AND r.state > 0)
                    < m.lane_max AS is_free
            FROM {schema}.message m
            WHERE m.state = 0 AND m.lane IS NOT NULL AND m.queue = l.queue
              AND m.priority = level.priority AND {turn}
            ORDER BY m.due_at, m.id
            LIMIT 100
        ) AS near
        GROUP BY level.priority
    ) AS level
) AS limited
