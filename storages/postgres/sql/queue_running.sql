-- Counts the running messages of a queue, up to their maximum. Every running message has an owner; the
-- condition makes the planner use the index of running messages only.
SELECT count(*) FROM (
    SELECT 1 FROM {schema}.message m
    WHERE m.state = 1 AND m.owner IS NOT NULL AND m.queue = $1
    LIMIT $2
) AS running
