-- Deletes rows of partitions that are not dropped as a whole: at most $2 rows, so at most $2 of each kind.
WITH deleted AS (
    DELETE FROM {schema}.{table} WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM {schema}.{table} WHERE ended_at < $1 {order} LIMIT $2))
    RETURNING state, id
)
SELECT count(state), count(id) FROM deleted
