WITH old AS (
    SELECT id, ended_at FROM {schema}.finished WHERE ended_at < $1 ORDER BY ended_at, id LIMIT $2
), gone AS (
    DELETE FROM {schema}.finished f USING old WHERE f.id = old.id AND f.ended_at = old.ended_at RETURNING 1
)
SELECT count(*) FROM gone
