WITH given AS (
    SELECT * FROM unnest($1::uuid[], $2::int8[]) AS g(id, token) ORDER BY g.id
)
UPDATE {schema}.message m
SET lease_until = $3
FROM given g
WHERE m.id = g.id AND m.token = g.token AND m.state = 1
RETURNING m.id, m.token, m.cancel_requested
