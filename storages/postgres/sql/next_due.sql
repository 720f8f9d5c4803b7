-- Returns the earliest due time of each queue among messages that are not blocked: one short scan per priority,
-- and the same for messages that share limits, skipping those whose limit is reached. Where the first hundred
-- of a priority exceed their limits, each limit is read separately. With a topic filter ($3: without the topics
-- of Punctual itself; $4: the keys of an object) at most $5 messages of a priority are scanned; behind them the
-- due time of the last one is returned.
SELECT l.n, least((
    SELECT min(first.due_at)
    FROM generate_series(0, 9) AS level(priority)
    CROSS JOIN LATERAL (
        SELECT coalesce((
            SELECT near.due_at
            FROM (
                SELECT m.due_at, m.id, ({in_topics} AND {not_blocked}) AS fits
                FROM {schema}.message m
                WHERE m.state = 0 AND m.lane IS NULL AND m.queue = l.queue AND m.priority = level.priority
                ORDER BY m.due_at, m.id
                LIMIT l.walked
            ) AS near
            WHERE near.fits
            ORDER BY near.due_at, near.id
            LIMIT 1
        ), CASE WHEN l.walked IS NOT NULL THEN (
            SELECT m.due_at
            FROM {schema}.message m
            WHERE m.state = 0 AND m.lane IS NULL AND m.queue = l.queue AND m.priority = level.priority
            ORDER BY m.due_at, m.id
            LIMIT 1 OFFSET l.walked - 1
        ) END) AS due_at
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
          AND {in_topics} AND {not_blocked}
        ORDER BY m.due_at, m.id
        LIMIT 100
    ) AS m
    WHERE f.running < m.lane_max
) END) AS due_at, (SELECT min(j.due_at) FROM {schema}.job j WHERE j.due_at IS NOT NULL) AS jobs_due_at
FROM (
    SELECT q.queue, q.n, q.own, q.topics::jsonb AS topics,
        CASE WHEN q.own OR q.topics IS NOT NULL THEN $5::int8 END AS walked
    FROM unnest($1::text[], $3::bool[], $4::text[]) WITH ORDINALITY AS q(queue, own, topics, n)
) AS l
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
              AND m.priority = level.priority AND {in_topics} AND {not_blocked}
            ORDER BY m.due_at, m.id
            LIMIT 100
        ) AS near
        GROUP BY level.priority
    ) AS level
) AS limited
