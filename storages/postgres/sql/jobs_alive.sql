-- The alive messages of jobs, locked in the order of their ids. Found first and sorted then: asked for
-- in one, a plan made while the table was empty walks all of it in order.
SELECT m.id, m.job, m.state FROM {schema}.message m
WHERE m.id = ANY(ARRAY(SELECT j.id FROM {schema}.message j WHERE j.job = ANY($1::text[])))
  AND m.job = ANY($1::text[])
ORDER BY m.id
FOR UPDATE OF m
