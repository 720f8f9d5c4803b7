-- Fast path of enqueue: stores nothing when any message of the batch may be known; the careful path then finds
-- out. Ids are made in the order of time, so one query of the range of the batch shows that none of it is
-- finished or dead. An alive id is refused by its unique index.
WITH known AS MATERIALIZED (
    (SELECT 1 FROM {schema}.history f
     WHERE f.message BETWEEN $15 AND $16 AND f.state IS NOT NULL AND f.ended_at >= $17 LIMIT 1)
    UNION ALL
    (SELECT 1 FROM {schema}.dead d WHERE d.id BETWEEN $15 AND $16 LIMIT 1)
    UNION ALL
    (SELECT 1 FROM {schema}.message m WHERE m.dedupe = ANY($18::text[]) AND m.released IS NOT TRUE
     LIMIT 1)
    UNION ALL
    (SELECT 1 FROM {schema}.held_key h WHERE h.key = ANY($18::text[]) LIMIT 1)
)
INSERT INTO {schema}.message (id, queue, topic, priority, source, exclusive, due_at, planned_at,
    created_at, key, dedupe, job, body, extra, lane, lane_max, batch, waits_for, released)
SELECT e.* FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int2[], $5::int2[], $6::bool[],
    $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[], $12::text[],
    $13::bytea[], $14::text[], $19::text[], $20::int4[], $21::uuid[], $22::uuid[], $23::bool[])
    AS e(id, queue, topic, priority, source, exclusive, due_at, planned_at, created_at, key, dedupe,
         job, body, extra, lane, lane_max, batch, waits_for, released)
WHERE NOT EXISTS (SELECT 1 FROM known)
