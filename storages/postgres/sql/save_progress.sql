-- Saves progress and checkpoints of handlers; a NULL leaves the stored value. A message is found by its id
-- among the sorted ids of the batch, as in the settle statements.
UPDATE {schema}.message m
SET progress = coalesce(($3::text[])[width_bucket(m.id, $1::uuid[])], m.progress),
    checkpoint = coalesce(($4::text[])[width_bucket(m.id, $1::uuid[])], m.checkpoint)
WHERE m.id = ANY($1::uuid[]) AND m.state + 0 = 1
  AND m.token = ($2::int8[])[width_bucket(m.id, $1::uuid[])]
RETURNING m.id, m.token, m.cancel_requested
