-- What lies in no day: oldest first.
WITH old AS (
    SELECT id, ended_at FROM {schema}.execution_rest WHERE ended_at < $1 ORDER BY ended_at, id LIMIT $2
), gone AS (
    DELETE FROM {schema}.execution_rest r USING old WHERE r.id = old.id AND r.ended_at = old.ended_at
    RETURNING 1
)
SELECT count(*) FROM gone
