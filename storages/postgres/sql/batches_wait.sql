-- Returns the messages that wait for these batches, locked in the order of their ids: of two transactions that
-- end the last messages of a batch at once, the second begins its next statement when the first has committed.
-- They are found first and sorted then, as in `alive`.
SELECT m.id FROM {schema}.message m
WHERE m.id = ANY(ARRAY(
    SELECT w.id FROM {schema}.message w
    WHERE w.waits_for = ANY($1::uuid[]) AND w.due_at = $2 AND w.state + 0 = 0
))
ORDER BY m.id
FOR UPDATE OF m
