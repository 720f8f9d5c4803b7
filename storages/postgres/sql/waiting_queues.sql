-- Returns the queues in which messages may be waiting: exclusive ones of these jobs when a run has ended, all
-- messages of the jobs when a pause has; and messages that share these limits.
SELECT queue FROM {schema}.message
WHERE job = ANY($1::text[]) AND state + 0 = 0 AND (exclusive OR $2)
UNION
SELECT q.queue
FROM unnest($3::text[]) AS l(lane)
CROSS JOIN LATERAL (
    WITH RECURSIVE waiting AS (
        (SELECT m.queue FROM {schema}.message m
         WHERE m.lane = l.lane AND m.state = $4 ORDER BY m.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT m.queue FROM {schema}.message m
                WHERE m.lane = l.lane AND m.state = $4 AND m.queue > w.queue ORDER BY m.queue LIMIT 1)
        FROM waiting w
        WHERE w.queue IS NOT NULL
    )
    SELECT queue FROM waiting WHERE queue IS NOT NULL LIMIT 1000
) AS q
