INSERT INTO {schema}.execution (id, message, process, due_at, started_at, ended_at, nominal, attempt,
    attempts_max, source, ending, topic, queue, key, job, note)
SELECT e.id, e.message, e.process, e.due_at, e.started_at, e.ended_at, e.nominal, e.attempt,
    e.attempts_max, e.source, e.ending, e.topic, e.queue, e.key, e.job, e.note
FROM unnest($1::int8[], $2::uuid[], $3::uuid[], $4::uuid[], $5::timestamptz[], $6::timestamptz[],
    $7::timestamptz[], $8::timestamptz[], $9::int4[], $10::int4[], $11::int2[], $12::int2[],
    $13::text[], $14::text[], $15::text[], $16::text[], $17::text[])
    AS e(n, id, message, process, due_at, started_at, ended_at, nominal, attempt,
         attempts_max, source, ending, topic, queue, key, job, note)
ON CONFLICT DO NOTHING
