-- Returns the alive messages with these ids or deduplication keys, locked in the order of their ids. They are
-- found first and sorted then: in one step, a plan made while the table was empty scans all of it in order.
SELECT m.id, CASE WHEN m.released IS NOT TRUE THEN m.dedupe END, m.state FROM {schema}.message m
WHERE m.id = ANY(ARRAY(
    SELECT a.id FROM {schema}.message a WHERE a.id = ANY($1::uuid[])
    UNION ALL
    SELECT b.id FROM {schema}.message b WHERE b.dedupe = ANY($2::text[]) AND b.released IS NOT TRUE
))
ORDER BY m.id
FOR UPDATE OF m
