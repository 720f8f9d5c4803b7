-- A message of a batch is skipped unless $14 states that the same transaction ends the batch. A message is
    -- found by its id among the sorted ids of the batch, never by a join: a plan made while the table was empty
    -- would scan all running messages for each of the batch. `state + 0` excludes the partial indexes for the
    -- same reason.
    DELETE FROM {schema}.message m
    WHERE m.id = ANY($1::uuid[]) AND m.state + 0 = 1
      AND m.token = ($2::int8[])[width_bucket(m.id, $1::uuid[])]
      AND (m.batch IS NULL OR $14)
    RETURNING width_bucket(m.id, $1::uuid[]) AS n, m.*
