-- Makes those messages due at their planned time whose batch has no alive message any more.
UPDATE {schema}.message m
SET due_at = m.planned_at
WHERE m.id = ANY($1::uuid[]) AND m.state + 0 = 0 AND m.due_at = $2
  AND (SELECT 1 FROM {schema}.message a WHERE a.batch = m.waits_for LIMIT 1) IS NULL
RETURNING m.queue, m.due_at
