-- Views for people with an sqlite3 shell: words instead of numbers, times as text in UTC, ids as hexadecimal digits. No
-- statement of Punctual reads them.

CREATE VIEW punctual_scheduled_jobs AS
SELECT
  j.name AS name,
  CASE WHEN json_extract(j.record, '$.job.schedule.once') IS NULL THEN 'Recurring' ELSE 'OneTime' END AS type,
  json_extract(j.record, '$.job.schedule.cron') AS cron,
  json_extract(j.record, '$.job.schedule.every') AS every,
  coalesce(json_extract(j.record, '$.job.schedule.zone'), 'UTC') AS zone,
  json_extract(j.record, '$.job.body') AS payload,
  CASE
    WHEN json_extract(j.record, '$.retired') = 'finished' THEN 'Completed'
    WHEN j.phase <> 'active' THEN 'Disabled'
    WHEN r.id IS NOT NULL THEN 'Running'
    ELSE 'Pending'
  END AS status,
  strftime('%Y-%m-%dT%H:%M:%fZ', j.due_at / 1000000.0, 'unixepoch') AS next_run,
  json_extract(j.record, '$.last_nominal') AS last_run,
  (SELECT (e.ended_at - e.started_at) / 1000 FROM punctual_history e WHERE e.job = j.name
   AND e.ending IS NOT NULL ORDER BY e.id DESC LIMIT 1) AS last_duration_ms,
  max(coalesce(json_extract(j.record, '$.job.terms.retry.attempts_max'), 0) - 1, 0) AS retry_count,
  json_extract(j.record, '$.job.terms.retry.backoff.intervals') AS retry_intervals,
  json_extract(j.record, '$.job.overlap') <> 'allow' AS skip_if_running,
  lower(nullif(hex(r.owner), '')) AS lock_holder,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.lease_until / 1000000.0, 'unixepoch') AS locked_until,
  j.phase = 'active' AS enabled,
  json_extract(j.record, '$.created_at') AS created,
  json_extract(j.record, '$.updated_at') AS updated
FROM punctual_job j
LEFT JOIN punctual_message r ON r.id =
  (SELECT m.id FROM punctual_message m WHERE m.job = j.name AND m.state = 1 LIMIT 1);

CREATE VIEW punctual_job_executions AS
SELECT
  lower(hex(id)) AS id,
  job,
  lower(nullif(hex(message), '')) AS message,
  topic,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(nominal, due_at) / 1000000.0, 'unixepoch') AS scheduled_time,
  strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1000000.0, 'unixepoch') AS started,
  strftime('%Y-%m-%dT%H:%M:%fZ', ended_at / 1000000.0, 'unixepoch') AS completed,
  CASE ending
    WHEN 0 THEN 'Succeeded'
    WHEN 1 THEN 'Failed'
    WHEN 2 THEN 'Failed: timed out'
    WHEN 3 THEN 'Failed: panicked'
    WHEN 4 THEN 'Failed: no handler'
    WHEN 5 THEN 'Failed: poison'
    WHEN 6 THEN 'Snoozed'
    WHEN 7 THEN 'Failed: discarded'
    WHEN 8 THEN 'Cancelled'
    WHEN 9 THEN 'Released'
    WHEN 10 THEN 'Lost'
    WHEN 20 THEN 'Skipped: misfire'
    WHEN 21 THEN 'Skipped: older than the window'
    WHEN 22 THEN 'Skipped: beyond the catch-up limit'
    WHEN 23 THEN 'Skipped: overlap'
    WHEN 24 THEN 'Skipped: paused'
    WHEN 25 THEN 'Skipped: by an operator'
    WHEN 26 THEN 'Skipped: expired'
    ELSE 'Unknown'
  END AS status,
  (ended_at - started_at) / 1000 AS duration_ms,
  attempt AS retry_attempt,
  note AS error,
  log
FROM punctual_history WHERE ending IS NOT NULL;

CREATE VIEW punctual_messages AS
SELECT
  lower(hex(id)) AS id, queue, topic, key, job, priority,
  CASE state WHEN 0 THEN 'pending' WHEN 1 THEN 'running' WHEN 2 THEN 'done' WHEN 3 THEN 'dead' ELSE 'cancelled' END
    AS state,
  strftime('%Y-%m-%dT%H:%M:%fZ', due_at / 1000000.0, 'unixepoch') AS due,
  strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000000.0, 'unixepoch') AS created,
  strftime('%Y-%m-%dT%H:%M:%fZ', ended_at / 1000000.0, 'unixepoch') AS ended,
  attempt, lower(nullif(hex(owner), '')) AS lock_holder, error, lower(nullif(hex(batch), '')) AS batch,
  json_extract(progress, '$.percent') AS percent, body
FROM (
  SELECT id, queue, topic, key, job, priority, state, due_at, created_at, NULL AS ended_at, attempt, owner,
    error, batch, progress, body FROM punctual_message
  UNION ALL
  SELECT id, queue, topic, key, job, priority, 3, due_at, created_at, ended_at, attempt, NULL, error, batch,
    progress, body FROM punctual_dead
  UNION ALL
  SELECT message, queue, topic, key, job, priority, state, due_at, created_at, finished_at, attempt, NULL, error,
    batch, progress, body FROM punctual_history WHERE state >= 0
);
