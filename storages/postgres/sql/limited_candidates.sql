-- Returns the due messages with limits that can probably run, in the order of a claim, and the lock that each
-- needs. Nothing is locked here; the claim counts again.
--
-- The first messages are read in their order. When all of them exceed their limit ($5 of them, and too few that
-- may run), each limit is read separately, so that a limit with many waiting messages does not hide others. At
-- most $8 limits are read. `state > 0` and `state = $7`, which is 0, exclude indexes that are not by limit.
WITH RECURSIVE near AS MATERIALIZED (
    SELECT level.n, m.*
    FROM unnest($3::int2[]) WITH ORDINALITY AS level(priority, n)
    CROSS JOIN LATERAL (
        SELECT m.id, m.lane, m.lane_max, m.due_at, CASE WHEN m.exclusive THEN m.job END AS job
        FROM {schema}.message m
        WHERE m.state = 0 AND m.lane IS NOT NULL AND m.queue = $1 AND m.priority = level.priority
          AND m.due_at <= $2 AND {topic_fits} AND {not_blocked} AND {exclusive_order}
        ORDER BY m.due_at, m.id
        LIMIT $5
    ) AS m
    LIMIT $5
), near_lane AS MATERIALIZED (
    SELECT l.lane, l.waiting, l.most,
        (SELECT count(*) FROM {schema}.message r WHERE r.lane = l.lane AND r.state > 0) AS running
    FROM (SELECT lane, count(*) AS waiting, max(lane_max) AS most FROM near GROUP BY lane) AS l
), far_name AS (
    (SELECT m.lane, 1 AS n
     FROM {schema}.message m
     WHERE m.lane IS NOT NULL AND m.state = $7
       AND (SELECT count(*) FROM near) >= $5
       AND (SELECT coalesce(sum(greatest(least(waiting, most - running), 0)), 0) FROM near_lane) < $4
     ORDER BY m.lane
     LIMIT 1)
    UNION ALL
    SELECT (SELECT m.lane FROM {schema}.message m
            WHERE m.lane > f.lane AND m.state = $7 ORDER BY m.lane LIMIT 1), f.n + 1
    FROM far_name f
    WHERE f.lane IS NOT NULL AND f.n < $8
), far_lane AS MATERIALIZED (
    SELECT f.lane,
        (SELECT count(*) FROM {schema}.message r WHERE r.lane = f.lane AND r.state > 0) AS running
    FROM far_name f WHERE f.lane IS NOT NULL
), candidate AS (
    SELECT n, id, lane, lane_max, due_at, job FROM near
    UNION
    SELECT level.n, m.id, f.lane, m.lane_max, m.due_at, m.job
    FROM far_lane f
    CROSS JOIN unnest($3::int2[]) WITH ORDINALITY AS level(priority, n)
    CROSS JOIN LATERAL (
        SELECT m.id, m.lane_max, m.due_at, CASE WHEN m.exclusive THEN m.job END AS job
        FROM {schema}.message m
        WHERE m.lane = f.lane AND m.state = $7 AND m.queue = $1 AND m.priority = level.priority
          AND m.due_at <= $2 AND {topic_fits} AND {not_blocked} AND {exclusive_order}
        ORDER BY m.due_at, m.id
        LIMIT $6
    ) AS m
), ranked AS (
    SELECT l.*, c.running, row_number() OVER (PARTITION BY l.lane ORDER BY l.n, l.due_at, l.id) AS place
    FROM candidate l
    JOIN (SELECT lane, running FROM near_lane UNION SELECT lane, running FROM far_lane) AS c
        ON c.lane = l.lane
    WHERE c.running < l.lane_max
), possible AS (
    SELECT * FROM ranked WHERE running + place <= lane_max ORDER BY n, due_at, id LIMIT $4
)
SELECT p.id, hashtext(p.lane) & 63 AS lock, p.job,
    (SELECT 1 FROM {schema}.message l
     WHERE l.state = 0 AND l.lane IS NOT NULL AND l.queue = $1 LIMIT 1) IS NOT NULL AS some
FROM (VALUES (1)) AS one(row)
LEFT JOIN possible p ON true
ORDER BY p.n, p.due_at, p.id
