SELECT kind, key, version, updated_at, expires_at, body FROM {schema}.document
WHERE kind = $1 AND key >= $2 AND key < $3 AND (expires_at IS NULL OR expires_at > $4)
ORDER BY key LIMIT $5
