-- One scan of the pending index for each priority, in the order given, each from its claim cursor on and never
-- past what is due. Rows that another claim has locked are skipped, and so are messages that are blocked by
-- others of their job; those subqueries run for messages of jobs only. A locked row does not move, so it is
-- updated by its ctid. Messages that share a limit are claimed by another statement; the last column returns
-- whether there are any. Only topics in $9 are accepted, or all when it is NULL; $10 excludes the topics of
-- Punctual itself.
WITH picked AS MATERIALIZED (
    SELECT due.place, nextval('{schema}.token') AS token
    FROM unnest($5::int2[], $6::timestamptz[], $7::uuid[]) AS mark(priority, due_at, id)
    CROSS JOIN LATERAL (
        SELECT m.ctid AS place
        FROM {schema}.message m
        WHERE m.state = 0 AND m.lane IS NULL AND m.queue = $1 AND m.priority = mark.priority
          AND m.due_at <= $2 AND (m.due_at, m.id) > (mark.due_at, mark.id)
          AND {topic_fits} AND {not_blocked} AND {first_exclusive}
        ORDER BY m.due_at, m.id
        LIMIT $3
        FOR UPDATE OF m SKIP LOCKED
    ) AS due
    LIMIT $3
)
UPDATE {schema}.message m
SET state = 1, attempt = m.attempt + 1, owner = $4, token = picked.token, lease_until = $8,
    released = CASE WHEN m.released IS NOT NULL THEN true END
FROM picked
WHERE m.ctid = picked.place
RETURNING m.id, m.topic, m.priority, m.planned_at, m.created_at, m.source, m.key, m.dedupe,
    m.exclusive, m.body, m.extra, m.due_at, m.attempt, m.crashes, m.snoozes, m.token,
    m.cancel_requested, m.checkpoint,
    (SELECT 1 FROM {schema}.message l
     WHERE l.state = 0 AND l.lane IS NOT NULL AND l.queue = $1 LIMIT 1) IS NOT NULL
