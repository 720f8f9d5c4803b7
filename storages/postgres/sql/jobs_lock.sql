-- Locks the jobs that are to fire, in the order of their names.
SELECT j.name, j.version, j.paused FROM {schema}.job j
WHERE j.name = ANY($1::text[])
ORDER BY j.name
FOR UPDATE OF j
