-- One walk of the pending index for each priority, in the order given, each from its low-water mark on
-- and never past what is due. Rows another claim has locked are passed over. A message that waits for its
-- turn is passed over too; the subqueries run for messages of jobs only. A row that is locked stays
-- where it is, so it is found again by its place. Messages that share a limit are claimed elsewhere; the
-- last column says whether there are any. Only topics in $9 are taken, or all; not Punctual's own with $10.
WITH picked AS MATERIALIZED (
    SELECT due.place, nextval('{schema}.token') AS token
    FROM unnest($5::int2[], $6::timestamptz[], $7::uuid[]) AS mark(priority, due_at, id)
    CROSS JOIN LATERAL (
        SELECT m.ctid AS place
        FROM {schema}.message m
        WHERE m.state = 0 AND m.lane IS NULL AND m.queue = $1 AND m.priority = mark.priority
          AND m.due_at <= $2 AND (m.due_at, m.id) > (mark.due_at, mark.id)
          AND {fits} AND {turn} AND {first}
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
