-- Which of these batches have a message that is alive. One of each is kept from ending until we commit:
-- whoever ends it then sees what we stored to wait for it.
SELECT b.batch
FROM unnest($1::uuid[]) AS b(batch)
CROSS JOIN LATERAL (
    SELECT 1 FROM {schema}.message m WHERE m.batch = b.batch LIMIT 1 FOR KEY SHARE OF m
) AS one
