WITH old AS (
    SELECT h.key FROM {schema}.held_key h WHERE h.until <= $1 ORDER BY h.until LIMIT $2
    FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.held_key h USING old WHERE h.key = old.key
