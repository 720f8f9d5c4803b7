-- Views of jobs, with the same columns and values on every storage. In punctual_scheduled_jobs the type is Recurring or
-- OneTime; the status is Pending, Running, Completed, Failed or Disabled; a job that is paused or no longer declared
-- has no next run. A finished job is Failed when its last run did not succeed, or, once that run is pruned, when it has
-- a dead letter. One-time jobs that were planned at run time have a row each, with the key and the id of their message,
-- while they wait, run or are a dead letter; those that succeeded are in punctual_job_executions. A redriven one-time
-- job is still one: a redriven run of a job has a schedule, a redriven one-time job has none. Times are text in UTC,
-- ids hexadecimal digits and retry intervals a JSON array, because SQLite has no such types.

-- Alive messages that are, or may be, one-time jobs that were planned at run time (source 3), also redriven ones (4).
CREATE INDEX punctual_message_planned ON punctual_message (id) WHERE job IS NOT NULL AND source IN (3, 4);

DROP VIEW punctual_scheduled_jobs;
CREATE VIEW punctual_scheduled_jobs AS
SELECT
  j.name AS name,
  CASE WHEN json_extract(j.record, '$.job.schedule.once') IS NULL THEN 'Recurring' ELSE 'OneTime' END AS type,
  coalesce(json_extract(j.record, '$.job.schedule.cron'), json_extract(j.record, '$.job.schedule.every')) AS cron,
  coalesce(json_extract(j.record, '$.job.schedule.zone'), 'UTC') AS zone,
  coalesce(json_extract(j.record, '$.job.body.text'), json_extract(j.record, '$.job.body.base64')) AS payload,
  CASE
    WHEN r.state = 1 THEN 'Running'
    WHEN j.phase = 'paused' OR json_extract(j.record, '$.retired') = 'removed' THEN 'Disabled'
    WHEN j.phase = 'active' OR r.state = 0 THEN 'Pending'
    WHEN coalesce(e.ending <> 0, EXISTS (SELECT 1 FROM punctual_dead d WHERE d.job = j.name
      AND NOT (d.source = 3 OR d.source = 4 AND json_extract(d.extra, '$.occurrence.schedule') IS NULL))) THEN 'Failed'
    ELSE 'Completed'
  END AS status,
  CASE WHEN j.phase = 'active' THEN strftime('%Y-%m-%dT%H:%M:%fZ', j.due_at / 1000000.0, 'unixepoch') END
    AS next_run_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', e.started_at / 1000000.0, 'unixepoch') AS last_run_at,
  (e.ended_at - e.started_at) / 1000 AS last_duration_ms,
  max(coalesce(r.attempt, 0) - 1, 0) AS retry_count,
  json_extract(j.record, '$.job.terms.retry.backoff.intervals') AS retry_intervals,
  coalesce(json_extract(j.record, '$.job.overlap'), 'skip') = 'skip' AS skip_if_running,
  lower(nullif(hex(r.owner), '')) AS lock_holder,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.lease_until / 1000000.0, 'unixepoch') AS locked_until,
  j.phase = 'active' AS enabled,
  json_extract(j.record, '$.created_at') AS created_at,
  json_extract(j.record, '$.updated_at') AS updated_at,
  NULL AS key,
  NULL AS message
FROM punctual_job j
LEFT JOIN punctual_message r ON r.id =
  (SELECT m.id FROM punctual_message m WHERE m.job = j.name
   AND NOT (m.source = 3 OR m.source = 4 AND json_extract(m.extra, '$.occurrence.schedule') IS NULL)
   ORDER BY m.state DESC, m.due_at LIMIT 1)
LEFT JOIN punctual_history e ON e.id =
  (SELECT h.id FROM punctual_history h WHERE h.job = j.name AND h.source <> 3 AND h.ending < 20
   -- An attempt does not contain whether its redriven message has a schedule; the message does.
   AND (h.source <> 4 OR NOT EXISTS (
     SELECT 1 FROM punctual_message m
     WHERE m.id = h.message AND m.source = 4 AND json_extract(m.extra, '$.occurrence.schedule') IS NULL
     UNION ALL
     SELECT 1 FROM punctual_dead d
     WHERE d.id = h.message AND d.source = 4 AND json_extract(d.extra, '$.occurrence.schedule') IS NULL
     UNION ALL
     SELECT 1 FROM punctual_history f
     WHERE f.message = h.message AND f.state >= 0 AND f.source = 4
     AND json_extract(f.extra, '$.occurrence.schedule') IS NULL))
   ORDER BY h.id DESC LIMIT 1)
UNION ALL
SELECT
  p.job,
  'OneTime',
  NULL,
  'UTC',
  -- Hexadecimal digits when it is compressed or of a type that is not text.
  CASE
    WHEN json_extract(p.extra, '$.headers."punctual-encoding"') IS NOT NULL THEN lower(hex(p.body))
    WHEN coalesce(json_extract(p.extra, '$.content_type'), 'json') LIKE '%json%' THEN CAST(p.body AS TEXT)
    WHEN json_extract(p.extra, '$.content_type') LIKE 'text/%' THEN CAST(p.body AS TEXT)
    ELSE lower(hex(p.body))
  END,
  CASE
    WHEN p.state = 1 THEN 'Running'
    WHEN p.state = 3 THEN 'Failed'
    WHEN p.paused THEN 'Disabled'
    ELSE 'Pending'
  END,
  CASE WHEN p.state = 0 AND NOT p.paused THEN strftime('%Y-%m-%dT%H:%M:%fZ', p.due_at / 1000000.0, 'unixepoch') END,
  strftime('%Y-%m-%dT%H:%M:%fZ', e.started_at / 1000000.0, 'unixepoch'),
  (e.ended_at - e.started_at) / 1000,
  max(p.attempt - 1, 0),
  json_extract(p.extra, '$.terms.retry.backoff.intervals'),
  p.exclusive,
  lower(nullif(hex(p.owner), '')),
  strftime('%Y-%m-%dT%H:%M:%fZ', p.lease_until / 1000000.0, 'unixepoch'),
  p.state <> 3 AND NOT p.paused,
  strftime('%Y-%m-%dT%H:%M:%fZ', p.created_at / 1000000.0, 'unixepoch'),
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(e.ended_at, p.created_at) / 1000000.0, 'unixepoch'),
  p.key,
  lower(hex(p.id))
FROM (
  SELECT id, job, key, state, attempt, exclusive, owner, lease_until, due_at, created_at, body, extra,
    json_extract(extra, '$.paused') IS NOT NULL AS paused
  FROM punctual_message WHERE job IS NOT NULL AND source IN (3, 4)
    AND (source = 3 OR source = 4 AND json_extract(extra, '$.occurrence.schedule') IS NULL)
  UNION ALL
  SELECT id, job, key, 3, attempt, exclusive, NULL, NULL, due_at, created_at, body, extra, FALSE
  FROM punctual_dead WHERE job IS NOT NULL
    AND (source = 3 OR source = 4 AND json_extract(extra, '$.occurrence.schedule') IS NULL)
) p
LEFT JOIN punctual_history e ON e.id =
  (SELECT h.id FROM punctual_history h WHERE h.message = p.id AND h.ending < 20 ORDER BY h.id DESC LIMIT 1);

-- Runs of jobs, with the same columns and values on every storage. A skipped occurrence has the reason beside it.
DROP VIEW punctual_job_executions;
CREATE VIEW punctual_job_executions AS
SELECT
  lower(hex(id)) AS id,
  job,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(nominal, due_at) / 1000000.0, 'unixepoch') AS scheduled_time,
  strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1000000.0, 'unixepoch') AS started_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', ended_at / 1000000.0, 'unixepoch') AS completed_at,
  CASE ending
    WHEN 0 THEN 'Succeeded'
    WHEN 1 THEN 'Failed'
    WHEN 2 THEN 'TimedOut'
    WHEN 3 THEN 'Panicked'
    WHEN 4 THEN 'NoHandler'
    WHEN 5 THEN 'Poison'
    WHEN 6 THEN 'Snoozed'
    WHEN 7 THEN 'Discarded'
    WHEN 8 THEN 'Cancelled'
    WHEN 9 THEN 'Released'
    WHEN 10 THEN 'Lost'
    ELSE 'Skipped'
  END AS status,
  (ended_at - started_at) / 1000 AS duration_ms,
  attempt AS retry_attempt,
  note AS error,
  lower(nullif(hex(message), '')) AS message,
  topic,
  CASE ending
    WHEN 20 THEN 'Misfire'
    WHEN 21 THEN 'Window'
    WHEN 22 THEN 'CatchUpLimit'
    WHEN 23 THEN 'Overlap'
    WHEN 24 THEN 'Paused'
    WHEN 25 THEN 'Operator'
    WHEN 26 THEN 'Expired'
  END AS skip_reason
FROM punctual_history WHERE job IS NOT NULL AND ending IS NOT NULL;
