-- The alive messages with these ids or deduplication keys, locked in the order of their ids.
SELECT m.id, m.dedupe, m.state FROM {schema}.message m
WHERE m.id = ANY($1::uuid[]) OR m.dedupe = ANY($2::text[])
ORDER BY m.id
FOR UPDATE OF m
