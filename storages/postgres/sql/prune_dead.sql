WITH old AS (
    SELECT id FROM {schema}.dead WHERE ended_at < $1 ORDER BY ended_at, id LIMIT $2
), deleted AS (
    DELETE FROM {schema}.dead d USING old WHERE d.id = old.id RETURNING 1
)
SELECT count(*), 0::int8 FROM deleted
