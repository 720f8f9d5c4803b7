WITH there (queue, state, count) AS (
  SELECT queue, state, count(*) FROM punctual_message GROUP BY queue, state
  UNION ALL SELECT queue, 3, count(*) FROM punctual_dead GROUP BY queue
  UNION ALL SELECT queue, state, count(*) FROM punctual_history WHERE state >= 0 GROUP BY queue, state
)
SELECT c.queue, c.count, coalesce(t.count, 0)
FROM punctual_count c LEFT JOIN there t USING (queue, state)
WHERE c.count <> coalesce(t.count, 0)
UNION ALL
SELECT t.queue, 0, t.count
FROM there t LEFT JOIN punctual_count c USING (queue, state)
WHERE c.queue IS NULL
