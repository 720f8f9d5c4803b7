WITH old AS (
    SELECT id, ended_at FROM {schema}.execution WHERE ended_at < $1 ORDER BY ended_at, id LIMIT $2
), gone AS (
    DELETE FROM {schema}.execution e USING old WHERE e.id = old.id AND e.ended_at = old.ended_at RETURNING 1
)
SELECT count(*) FROM gone
