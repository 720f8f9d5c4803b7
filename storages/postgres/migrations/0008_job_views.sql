-- Views of jobs, with the same columns and values on every storage. In scheduled_jobs the type is Recurring or OneTime;
-- the status is Pending, Running, Completed, Failed or Disabled; a job that is paused or no longer declared has no next
-- run. A finished job is Failed when its last run did not succeed, or, once that run is pruned, when it has a dead
-- letter. One-time jobs that were planned at run time have a row each, with the key and the id of their message, while
-- they wait, run or are a dead letter; those that succeeded are in job_executions. A redriven one-time job is still
-- one: a redriven run of a job has a schedule, a redriven one-time job has none.

-- The body of a message as text; hexadecimal digits when it is compressed or not UTF-8.
CREATE FUNCTION {schema}.body_text(body bytea, extra json) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $function$
BEGIN
    IF extra -> 'headers' -> 'punctual-encoding' IS NOT NULL THEN
        RETURN encode(body, 'hex');
    END IF;
    RETURN convert_from(body, 'UTF8');
EXCEPTION WHEN OTHERS THEN
    RETURN encode(body, 'hex');
END
$function$;

-- Whether a message is a one-time job that was planned at run time (source 3), also a redriven one (4).
CREATE FUNCTION {schema}.is_planned(source smallint, extra text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $function$
    SELECT CASE source
        WHEN 3 THEN extra::json -> 'occurrence' IS NOT NULL
        WHEN 4 THEN extra::json -> 'occurrence' IS NOT NULL AND extra::json -> 'occurrence' ->> 'schedule' IS NULL
        ELSE false END
$function$;

-- Pending and running messages of such jobs, by id. Redriven runs of jobs are also in it and excluded by is_planned.
CREATE INDEX message_planned ON {schema}.message (id) WHERE job IS NOT NULL AND source IN (3, 4);

CREATE OR REPLACE VIEW {schema}.scheduled_jobs AS
SELECT
    j.name::varchar(200) AS name,
    (CASE WHEN s.schedule ->> 'once' IS NULL THEN 'Recurring' ELSE 'OneTime' END)::varchar(20) AS type,
    coalesce(s.schedule ->> 'cron', s.schedule ->> 'every')::varchar(100) AS cron,
    coalesce(s.schedule ->> 'zone', 'UTC')::varchar(100) AS zone,
    coalesce(j.record -> 'job' -> 'body' ->> 'text', j.record -> 'job' -> 'body' ->> 'base64') AS payload,
    (CASE WHEN run.state = 1 THEN 'Running'
          WHEN j.phase = 1 OR j.record ->> 'retired' = 'removed' THEN 'Disabled'
          WHEN j.phase = 0 OR run.state = 0 THEN 'Pending'
          WHEN coalesce(last.ending <> 0, EXISTS (SELECT 1 FROM {schema}.dead d
              WHERE d.job = j.name AND NOT {schema}.is_planned(d.source, d.extra)))
          THEN 'Failed'
          ELSE 'Completed' END)::varchar(50) AS status,
    CASE WHEN j.phase = 0 THEN (j.record ->> 'cursor')::timestamptz END AS next_run_at,
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
    (j.record ->> 'updated_at')::timestamptz AS updated_at,
    NULL::text COLLATE "C" AS key,
    NULL::uuid AS message
FROM {schema}.job j
CROSS JOIN LATERAL (SELECT j.record -> 'job' -> 'schedule' AS schedule) s
CROSS JOIN LATERAL (SELECT j.record -> 'job' -> 'terms' AS terms) t
LEFT JOIN LATERAL (
    SELECT m.state, m.owner, m.attempt, m.lease_until FROM {schema}.message m
    WHERE m.job = j.name AND NOT {schema}.is_planned(m.source, m.extra) ORDER BY m.state DESC, m.due_at LIMIT 1
) run ON true
LEFT JOIN LATERAL (
    SELECT e.started_at, e.ended_at, e.ending FROM {schema}.history e
    WHERE e.job = j.name AND e.source <> 3 AND e.id IS NOT NULL AND e.ending < 20
      -- An attempt does not contain whether its redriven message has a schedule; the message does.
      AND (e.source <> 4 OR NOT EXISTS (
          SELECT 1 FROM {schema}.message m WHERE m.id = e.message AND {schema}.is_planned(m.source, m.extra)
          UNION ALL
          SELECT 1 FROM {schema}.dead d WHERE d.id = e.message AND {schema}.is_planned(d.source, d.extra)
          UNION ALL
          SELECT 1 FROM {schema}.history f
          WHERE f.message = e.message AND f.state IS NOT NULL AND {schema}.is_planned(f.source, f.extra)
      ))
    ORDER BY e.id DESC LIMIT 1
) last ON true
UNION ALL
SELECT
    p.job::varchar(200),
    'OneTime'::varchar(20),
    NULL::varchar(100),
    'UTC'::varchar(100),
    {schema}.body_text(p.body, x.extra),
    (CASE WHEN p.state = 1 THEN 'Running' WHEN p.state = 3 THEN 'Failed'
          WHEN x.extra -> 'paused' IS NOT NULL THEN 'Disabled' ELSE 'Pending' END)::varchar(50),
    CASE WHEN p.state = 0 AND x.extra -> 'paused' IS NULL THEN p.due_at END,
    last.started_at,
    (extract(epoch FROM last.ended_at - last.started_at) * 1000)::bigint,
    greatest(p.attempt - 1, 0),
    (SELECT array_agg({schema}.seconds(i.length) ORDER BY i.n)
     FROM json_array_elements_text(
         CASE WHEN json_typeof(x.extra -> 'terms' -> 'retry' -> 'backoff' -> 'intervals') = 'array'
              THEN x.extra -> 'terms' -> 'retry' -> 'backoff' -> 'intervals' ELSE '[]'::json END
     ) WITH ORDINALITY AS i(length, n)),
    p.exclusive,
    p.owner::text::varchar(256),
    CASE WHEN p.owner IS NOT NULL THEN p.lease_until END,
    p.state <> 3 AND x.extra -> 'paused' IS NULL,
    p.created_at,
    coalesce(last.ended_at, p.created_at),
    p.key,
    p.id
FROM (
    SELECT id, job, key, state, attempt, exclusive, owner, lease_until, due_at, created_at, body, extra
    FROM {schema}.message
    WHERE job IS NOT NULL AND source IN (3, 4) AND {schema}.is_planned(source, extra)
    UNION ALL
    SELECT id, job, key, 3, attempt, exclusive, NULL, NULL, due_at, created_at, body, extra
    FROM {schema}.dead WHERE job IS NOT NULL AND {schema}.is_planned(source, extra)
) p
CROSS JOIN LATERAL (SELECT p.extra::json AS extra) x
LEFT JOIN LATERAL (
    SELECT e.started_at, e.ended_at FROM {schema}.history e
    WHERE e.message = p.id AND e.state IS NULL AND e.id IS NOT NULL AND e.ending < 20 ORDER BY e.id DESC LIMIT 1
) last ON true;

-- Runs of jobs, with the same columns and values on every storage. A skipped occurrence has the reason beside it.
CREATE OR REPLACE VIEW {schema}.job_executions AS
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
    e.note AS error,
    e.message,
    e.topic,
    (CASE e.ending WHEN 20 THEN 'Misfire' WHEN 21 THEN 'Window' WHEN 22 THEN 'CatchUpLimit' WHEN 23 THEN 'Overlap'
        WHEN 24 THEN 'Paused' WHEN 25 THEN 'Operator' WHEN 26 THEN 'Expired' END)::varchar(50) AS skip_reason
FROM {schema}.history e
WHERE e.job IS NOT NULL AND e.id IS NOT NULL;
