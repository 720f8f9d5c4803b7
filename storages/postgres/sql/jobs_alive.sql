-- Returns the alive messages of jobs, locked in the order of their ids. They are found first and sorted then:
-- in one step, a plan made while the table was empty scans all of it in order.
SELECT m.id, m.job, m.state FROM {schema}.message m
WHERE m.id = ANY(ARRAY(SELECT j.id FROM {schema}.message j WHERE j.job = ANY($1::text[])))
  AND m.job = ANY($1::text[])
ORDER BY m.id
FOR UPDATE OF m
