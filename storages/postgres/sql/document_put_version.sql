-- Writes a document that must have a version: $1 kind, $2 key, $3 body, $4 expiry time, $5 now, $6 version.
UPDATE {schema}.document SET version = version + 1, updated_at = $5, expires_at = $4, body = $3
WHERE kind = $1 AND key = $2 AND version = $6 AND (expires_at IS NULL OR expires_at > $5)
RETURNING version
