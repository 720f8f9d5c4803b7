-- Returns the stored version; with a time ($3), only of a document that has not expired by then.
SELECT version FROM {schema}.document
WHERE kind = $1 AND key = $2 AND ($3::timestamptz IS NULL OR expires_at IS NULL OR expires_at > $3)
