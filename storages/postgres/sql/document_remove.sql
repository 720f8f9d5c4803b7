-- Nothing for the version ($3) means any.
DELETE FROM {schema}.document WHERE kind = $1 AND key = $2 AND ($3::bigint IS NULL OR version = $3)
