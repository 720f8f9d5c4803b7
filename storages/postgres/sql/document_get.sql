SELECT kind, key, version, updated_at, expires_at, body FROM {schema}.document
WHERE kind = $1 AND key = $2 AND (expires_at IS NULL OR expires_at > $3)
