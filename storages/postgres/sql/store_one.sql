-- One message of a transaction that is not ours, when nothing like it was ever here; otherwise nothing,
-- and the careful way finds out why. A conflict must not break that transaction.
WITH known AS MATERIALIZED (
    (SELECT 1 FROM {schema}.finished f
     WHERE f.id BETWEEN $15 AND $16 AND f.ended_at >= $17 LIMIT 1)
    UNION ALL
    (SELECT 1 FROM {schema}.dead d WHERE d.id BETWEEN $15 AND $16 LIMIT 1)
    UNION ALL
    (SELECT 1 FROM {schema}.message m WHERE m.dedupe = ANY($18::text[]) LIMIT 1)
)
INSERT INTO {schema}.message (id, queue, topic, priority, source, exclusive, due_at, planned_at,
    created_at, key, dedupe, job, body, extra)
SELECT e.* FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int2[], $5::int2[], $6::bool[],
    $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[], $12::text[],
    $13::bytea[], $14::text[])
    AS e(id, queue, topic, priority, source, exclusive, due_at, planned_at, created_at, key, dedupe,
         job, body, extra)
WHERE NOT EXISTS (SELECT 1 FROM known)
ON CONFLICT DO NOTHING
RETURNING pg_current_xact_id()::text
