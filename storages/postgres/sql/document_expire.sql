DELETE FROM {schema}.document WHERE (kind, key) IN (
    SELECT kind, key FROM {schema}.document WHERE expires_at <= $1
    ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
