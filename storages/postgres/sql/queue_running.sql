-- How many of a queue run, up to as many as may. Every running message has an owner; saying so has the
-- index of what runs walked, and nothing else.
SELECT count(*) FROM (
    SELECT 1 FROM {schema}.message m
    WHERE m.state = 1 AND m.owner IS NOT NULL AND m.queue = $1
    LIMIT $2
) AS running
