-- One walk of the pending index for each priority, highest first, each from its low-water mark on and
-- never past what is due. Rows another claim has locked are passed over. A message that waits for its
-- turn is passed over too; the subqueries run for messages of jobs only. A row that is locked stays
-- where it is, so it is found again by its place.
WITH picked AS MATERIALIZED (
    SELECT due.place, nextval('{schema}.token') AS token
    FROM unnest($5::int2[], $6::timestamptz[], $7::uuid[]) AS mark(priority, due_at, id)
    CROSS JOIN LATERAL (
        SELECT m.ctid AS place
        FROM {schema}.message m
        WHERE m.state = 0 AND m.queue = $1 AND m.priority = mark.priority
          AND m.due_at <= $2 AND (m.due_at, m.id) > (mark.due_at, mark.id)
          AND (NOT m.exclusive OR m.job IS NULL OR (
               (SELECT 1 FROM {schema}.message r WHERE r.job = m.job AND r.state + 0 = 1 LIMIT 1) IS NULL
               -- One exclusive message of a job in one claim: the first that could go.
               AND (SELECT 1 FROM {schema}.message e
                    WHERE e.job = m.job AND e.state + 0 = 0 AND e.exclusive AND e.queue = m.queue
                      AND e.due_at <= $2
                      AND (e.priority > m.priority
                           OR (e.priority = m.priority AND (e.due_at, e.id) < (m.due_at, m.id)))
                      AND (e.source <> 1 OR (SELECT j.paused FROM {schema}.job j
                                             WHERE j.name = e.job) IS NOT TRUE)
                    LIMIT 1) IS NULL))
          AND (m.source <> 1 OR m.job IS NULL
               OR (SELECT j.paused FROM {schema}.job j WHERE j.name = m.job) IS NOT TRUE)
        ORDER BY m.due_at, m.id
        LIMIT $3
        FOR UPDATE OF m SKIP LOCKED
    ) AS due
    LIMIT $3
)
UPDATE {schema}.message m
SET state = 1, attempt = m.attempt + 1, owner = $4, token = picked.token, lease_until = $8
FROM picked
WHERE m.ctid = picked.place
RETURNING m.id, m.topic, m.priority, m.planned_at, m.created_at, m.source, m.key, m.dedupe,
    m.exclusive, m.body, m.extra, m.due_at, m.attempt, m.crashes, m.snoozes, m.token,
    m.cancel_requested
