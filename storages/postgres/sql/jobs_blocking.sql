-- Returns the messages of jobs that keep occurrences from running: running, due and pending, or pending after
-- an attempt. A paused message is due at the end of time and does not count. Locked in the order of their ids;
-- found first and sorted then, as in `jobs_alive`.
SELECT m.id, m.job, m.state FROM {schema}.message m
WHERE m.id = ANY(ARRAY(SELECT j.id FROM {schema}.message j WHERE j.job = ANY($1::text[])
    AND (j.state = 1 OR j.due_at <= $2 OR (j.due_at < timestamptz '9999-12-30 22:00:00+00'
        AND (j.attempt > 0 OR j.snoozes > 0 OR j.crashes > 0)))))
  AND m.job = ANY($1::text[])
  AND (m.state = 1 OR m.due_at <= $2 OR (m.due_at < timestamptz '9999-12-30 22:00:00+00'
      AND (m.attempt > 0 OR m.snoozes > 0 OR m.crashes > 0)))
ORDER BY m.id
FOR UPDATE OF m
