-- Views for people: jobs and their runs. The lock columns show the lease of the running message, because there is no
-- table of locks.

-- Returns a duration of the records, such as 1h 30m or 500ms, in whole seconds.
CREATE FUNCTION {schema}.seconds(length text) RETURNS integer
LANGUAGE sql IMMUTABLE AS $function$
    SELECT sum((part.found)[1]::numeric * CASE (part.found)[2]
        WHEN 'w' THEN 604800 WHEN 'd' THEN 86400 WHEN 'h' THEN 3600 WHEN 'm' THEN 60 WHEN 's' THEN 1
        WHEN 'ms' THEN 0.001 WHEN 'us' THEN 0.000001 ELSE 0.000000001 END)::integer
    FROM regexp_matches(length, '([0-9.]+)\s*(ms|us|ns|w|d|h|m|s)', 'g') AS part(found)
$function$;

CREATE VIEW {schema}.scheduled_jobs AS
SELECT
    j.name::varchar(200) AS name,
    (CASE WHEN s.schedule ->> 'once' IS NULL THEN 'recurring' ELSE 'one-time' END)::varchar(20) AS type,
    coalesce(s.schedule ->> 'cron', s.schedule ->> 'every')::varchar(100) AS cron,
    coalesce(s.schedule ->> 'zone', 'UTC')::varchar(100) AS zone,
    coalesce(j.record -> 'job' -> 'body' ->> 'text', j.record -> 'job' -> 'body' ->> 'base64') AS payload,
    (CASE WHEN run.owner IS NOT NULL THEN 'Running'
          WHEN j.phase = 2 THEN 'Completed'
          WHEN j.phase = 1 THEN 'Paused'
          ELSE 'Pending' END)::varchar(50) AS status,
    (j.record ->> 'cursor')::timestamptz AS next_run_at,
    last.started_at AS last_run_at,
    (extract(epoch FROM last.ended_at - last.started_at) * 1000)::bigint AS last_duration_ms,
    coalesce(greatest(run.attempt - 1, 0), 0) AS retry_count,
    (SELECT array_agg({schema}.seconds(i.length) ORDER BY i.n)
     FROM json_array_elements_text(
         CASE WHEN json_typeof(t.terms -> 'retry' -> 'backoff' -> 'intervals') = 'array'
              THEN t.terms -> 'retry' -> 'backoff' -> 'intervals' ELSE '[]'::json END
     ) WITH ORDINALITY AS i(length, n)) AS retry_intervals,
    coalesce(j.record -> 'job' ->> 'overlap', 'skip') = 'skip' AS skip_if_running,
    run.owner::text::varchar(256) AS lock_holder,
    CASE WHEN run.owner IS NOT NULL THEN run.lease_until END AS locked_until,
    j.phase = 0 AS enabled,
    (j.record ->> 'created_at')::timestamptz AS created_at,
    (j.record ->> 'updated_at')::timestamptz AS updated_at
FROM {schema}.job j
CROSS JOIN LATERAL (SELECT j.record -> 'job' -> 'schedule' AS schedule) s
CROSS JOIN LATERAL (SELECT j.record -> 'job' -> 'terms' AS terms) t
LEFT JOIN LATERAL (
    SELECT m.owner, m.attempt, m.lease_until FROM {schema}.message m
    WHERE m.job = j.name ORDER BY m.state DESC, m.due_at LIMIT 1
) run ON true
LEFT JOIN LATERAL (
    SELECT e.started_at, e.ended_at FROM {schema}.history e
    WHERE e.job = j.name AND e.id IS NOT NULL AND e.ending < 20 ORDER BY e.id DESC LIMIT 1
) last ON true;

CREATE VIEW {schema}.job_executions AS
SELECT
    e.id,
    e.job,
    coalesce(e.nominal, e.due_at) AS scheduled_time,
    e.started_at,
    e.ended_at AS completed_at,
    (CASE e.ending WHEN 0 THEN 'Succeeded' WHEN 1 THEN 'Failed' WHEN 2 THEN 'TimedOut'
        WHEN 3 THEN 'Panicked' WHEN 4 THEN 'NoHandler' WHEN 5 THEN 'Poison' WHEN 6 THEN 'Snoozed'
        WHEN 7 THEN 'Discarded' WHEN 8 THEN 'Cancelled' WHEN 9 THEN 'Released' WHEN 10 THEN 'Lost'
        ELSE 'Skipped' END)::varchar(50) AS status,
    (extract(epoch FROM e.ended_at - e.started_at) * 1000)::bigint AS duration_ms,
    e.attempt AS retry_attempt,
    e.note AS error
FROM {schema}.history e
WHERE e.job IS NOT NULL AND e.id IS NOT NULL;

-- Newest scheduled time first, for one job or for all.
CREATE INDEX history_scheduled ON {schema}.history (due_at DESC) WHERE job IS NOT NULL;
