-- Inserts complete finished messages of another storage, without an attempt.
INSERT INTO {schema}.history (message, queue, topic, priority, source, exclusive, due_at, planned_at,
    created_at, key, dedupe, job, body, extra, attempt, crashes, snoozes, error, progress, checkpoint,
    state, ended_at, batch)
SELECT e.* FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int2[], $5::int2[], $6::bool[],
    $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[], $12::text[],
    $13::bytea[], $14::text[], $15::int4[], $16::int4[], $17::int4[], $18::text[], $19::text[],
    $20::text[], $21::int2[], $22::timestamptz[], $23::uuid[])
    AS e(id, queue, topic, priority, source, exclusive, due_at, planned_at, created_at, key, dedupe,
         job, body, extra, attempt, crashes, snoozes, error, progress, checkpoint, state, ended_at, batch)
