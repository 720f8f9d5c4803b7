-- Ids and tokens are sorted, each for itself; a token is given out once, so both together name a lease.
UPDATE {schema}.message m
SET lease_until = $3
WHERE m.id = ANY($1::uuid[]) AND m.state + 0 = 1
  AND m.token = ($2::int8[])[width_bucket(m.token, $2::int8[])]
RETURNING m.id, m.token, m.cancel_requested
