UPDATE {schema}.job j
SET due_at = e.due_at, paused = e.paused, version = e.version, app = e.app, phase = e.phase,
    record = e.record::json
FROM unnest($1::text[], $2::timestamptz[], $3::bool[], $4::int8[], $5::text[], $6::int2[], $7::text[])
    AS e(name, due_at, paused, version, app, phase, record)
WHERE j.name = e.name
