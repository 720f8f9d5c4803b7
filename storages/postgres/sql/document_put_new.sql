-- Writes a document that must not exist: $1 kind, $2 key, $3 body, $4 expiry time, $5 now.
INSERT INTO {schema}.document AS d (kind, key, version, updated_at, expires_at, body)
VALUES ($1, $2, 1, $5, $4, $3)
ON CONFLICT (kind, key) DO UPDATE SET
    version = 1, updated_at = excluded.updated_at, expires_at = excluded.expires_at, body = excluded.body
WHERE d.expires_at <= $5
RETURNING version
