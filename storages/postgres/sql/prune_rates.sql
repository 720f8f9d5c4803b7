DELETE FROM {schema}.rate WHERE name = ANY(ARRAY(
    SELECT r.name FROM {schema}.rate r WHERE r.used_until < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))
