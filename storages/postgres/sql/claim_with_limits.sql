-- Claims from a queue in which messages share limits: the messages that `claim` would claim, and as many of the
-- candidates ($11) as their limits still allow. A claim under a limit has taken its lock before, so running
-- messages are counted here, in a statement that began after the lock was taken.
WITH plain AS MATERIALIZED (
    SELECT due.place, mark.n, due.due_at, due.id
    FROM unnest($5::int2[], $6::timestamptz[], $7::uuid[]) WITH ORDINALITY AS mark(priority, due_at, id, n)
    CROSS JOIN LATERAL (
        {due_unlimited}
    ) AS due
    LIMIT $3
), limited AS MATERIALIZED (
    SELECT m.ctid AS place, array_position($5::int2[], m.priority)::int8 AS n, m.due_at, m.id, m.lane,
        m.lane_max
    FROM {schema}.message m
    WHERE m.id = ANY($11::uuid[]) AND m.state + 0 = 0 AND m.due_at <= $2 AND {not_blocked}
    FOR UPDATE OF m SKIP LOCKED
), ranked AS (
    SELECT l.*, row_number() OVER (PARTITION BY l.lane ORDER BY l.n, l.due_at, l.id) AS place_in_lane,
        (SELECT count(*) FROM {schema}.message r WHERE r.lane = l.lane AND r.state > 0) AS running
    FROM limited l
), picked AS MATERIALIZED (
    SELECT next.place, nextval('{schema}.token') AS token
    FROM (
        SELECT p.place, p.n, p.due_at, p.id FROM plain p
        UNION ALL
        SELECT r.place, r.n, r.due_at, r.id FROM ranked r WHERE r.running + r.place_in_lane <= r.lane_max
        ORDER BY n, due_at, id
        LIMIT $3
    ) AS next
)
{grant_leases}, true
