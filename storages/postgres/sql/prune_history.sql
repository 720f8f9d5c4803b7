-- Of the days that are not dropped as a whole: at most so many rows, which are so many of a kind at most.
WITH gone AS (
    DELETE FROM {schema}.{table} WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM {schema}.{table} WHERE ended_at < $1 {order} LIMIT $2))
    RETURNING state, id
)
SELECT count(state), count(id) FROM gone
