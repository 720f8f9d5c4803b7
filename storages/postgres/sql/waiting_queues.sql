-- The queues in which messages of these jobs may be waiting for their turn: exclusive ones when a run
-- has ended, all of them when a pause has.
SELECT DISTINCT queue FROM {schema}.message
WHERE job = ANY($1::text[]) AND state + 0 = 0 AND (exclusive OR $2)
