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
        {due_unlimited}
    ) AS due
    LIMIT $3
)
{grant_leases},
    (SELECT 1 FROM {schema}.message l
     WHERE l.state = 0 AND l.lane IS NOT NULL AND l.queue = $1 LIMIT 1) IS NOT NULL
