-- Ids and tokens are sorted separately; a token is issued once, so both together identify a lease.
UPDATE {schema}.message m
SET lease_until = $3
WHERE m.id = ANY($1::uuid[]) AND m.state + 0 = 1
  AND m.token = ($2::int8[])[width_bucket(m.token, $2::int8[])]
RETURNING m.id, m.token, m.cancel_requested
