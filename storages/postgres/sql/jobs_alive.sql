-- The alive messages of jobs, locked in the order of their ids.
SELECT m.id, m.job, m.state FROM {schema}.message m
WHERE m.job = ANY($1::text[])
ORDER BY m.id
FOR UPDATE OF m
