-- A heartbeat that arrives late never shortens a later one; only deregistration does.
INSERT INTO {schema}.process AS p (id, alive_until) VALUES ($1, $2)
ON CONFLICT (id) DO UPDATE SET alive_until =
    CASE WHEN excluded.alive_until > $3 THEN greatest(p.alive_until, excluded.alive_until)
         ELSE excluded.alive_until END
