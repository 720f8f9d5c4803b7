-- Reclaims messages whose lease has ended, and all of an owner whose last heartbeat has expired, earliest end
-- first. An owner that never sent a heartbeat is judged by its leases alone.
WITH lapsed AS MATERIALIZED (
    SELECT late.place, nextval('{schema}.token') AS token
    FROM (
        SELECT m.ctid AS place FROM {schema}.message m
        LEFT JOIN {schema}.process p ON p.id = m.owner
        WHERE m.state = 1 AND (m.lease_until < $1 OR p.alive_until < $1)
        ORDER BY m.lease_until, m.id
        LIMIT $2
        FOR UPDATE OF m SKIP LOCKED
    ) AS late
)
UPDATE {schema}.message m
SET owner = $3, token = lapsed.token, lease_until = $4
FROM lapsed
WHERE m.ctid = lapsed.place
RETURNING {claimed_columns}, m.queue
