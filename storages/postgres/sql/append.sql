-- Appends executions whose message did not end with them. One that is stored already stays.
INSERT INTO {schema}.history (id, message, process, due_at, started_at, ended_at, nominal, attempt,
    attempts_max, source, ending, topic, queue, key, job, note, log)
SELECT e.* FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::timestamptz[],
    $6::timestamptz[], $7::timestamptz[], $8::int4[], $9::int4[], $10::int2[], $11::int2[],
    $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[])
    AS e(id, message, process, due_at, started_at, ended_at, nominal, attempt,
         attempts_max, source, ending, topic, queue, key, job, note, log)
ON CONFLICT DO NOTHING
