UPDATE {schema}.message m
SET state = 1, attempt = m.attempt + 1, owner = $4, token = picked.token, lease_until = $8,
    released = CASE WHEN m.released IS NOT NULL THEN true END
FROM picked
WHERE m.ctid = picked.place
RETURNING {claimed_columns}
