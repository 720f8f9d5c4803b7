-- Returns which of these batches have an alive message. One message of each is kept from ending until we
-- commit: a transaction that ends it then sees the waiting messages that we stored.
SELECT b.batch
FROM unnest($1::uuid[]) AS b(batch)
CROSS JOIN LATERAL (
    SELECT 1 FROM {schema}.message m WHERE m.batch = b.batch LIMIT 1 FOR KEY SHARE OF m
) AS one
