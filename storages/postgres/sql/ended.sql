-- Returns the ended messages with these ids, with all columns of a record.
SELECT f.message AS id, f.queue, f.topic, f.priority, f.source, f.exclusive, f.due_at, f.planned_at,
    f.created_at, f.key, f.dedupe, f.body, f.extra, f.state, f.attempt, f.crashes, f.snoozes,
    NULL::uuid AS owner, NULL::int8 AS token, NULL::timestamptz AS lease_until,
    false AS cancel_requested, f.error, NULL::int2 AS reason, f.ended_at,
    f.progress, f.checkpoint
FROM {schema}.history f WHERE f.message = ANY($1::uuid[]) AND f.state IS NOT NULL
UNION ALL
SELECT d.id, d.queue, d.topic, d.priority, d.source, d.exclusive, d.due_at, d.planned_at,
    d.created_at, d.key, d.dedupe, d.body, d.extra, 3::int2, d.attempt, d.crashes, d.snoozes,
    NULL, NULL, NULL, false, d.error, d.reason, d.ended_at, d.progress, d.checkpoint
FROM {schema}.dead d WHERE d.id = ANY($1::uuid[])
