-- Writes documents unconditionally: $1 kinds, $2 keys, $3 bodies, $4 expiry times, $5 now.
INSERT INTO {schema}.document AS d (kind, key, version, updated_at, expires_at, body)
SELECT kind, key, 1, $5, expires_at, body
FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[]) AS draft (kind, key, body, expires_at)
ON CONFLICT (kind, key) DO UPDATE SET
    version = CASE WHEN d.expires_at <= $5 THEN 1 ELSE d.version + 1 END,
    updated_at = excluded.updated_at, expires_at = excluded.expires_at, body = excluded.body
RETURNING version
