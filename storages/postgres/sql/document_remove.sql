-- Removes a document; a NULL version ($3) matches every version.
DELETE FROM {schema}.document WHERE kind = $1 AND key = $2 AND ($3::bigint IS NULL OR version = $3)
