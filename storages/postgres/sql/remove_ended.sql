-- Removes ended messages that become alive again or dead. Their attempts stay.
WITH dead_letters AS (
    DELETE FROM {schema}.dead WHERE id = ANY($1::uuid[])
), alone AS (
    DELETE FROM {schema}.history h
    WHERE h.message = ANY($1::uuid[]) AND h.state IS NOT NULL AND h.id IS NULL
)
UPDATE {schema}.history h
SET planned_at = NULL, created_at = NULL, crashes = NULL, snoozes = NULL, priority = NULL, state = NULL,
    exclusive = NULL, dedupe = NULL, body = NULL, extra = NULL, error = NULL,
    batch = NULL, progress = NULL, checkpoint = NULL
WHERE h.message = ANY($1::uuid[]) AND h.state IS NOT NULL AND h.id IS NOT NULL
