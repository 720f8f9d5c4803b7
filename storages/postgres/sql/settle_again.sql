-- Makes messages due again. A message whose cancellation was requested meanwhile is only returned. A message is
-- found by its id among the sorted ids of the batch, never by a join: a plan made while the table was empty
-- would scan all running messages for each of the batch. `state + 0` excludes the partial indexes for the same
-- reason. Fields of the attempt that the message contains are not sent; an array without values is empty and
-- reads as NULL. A locked row is updated by its id and not by its ctid: a lease that is extended while this
-- statement waits for the lock moves the row to a ctid that this statement cannot see, and no row would be
-- updated.
WITH current AS MATERIALIZED (
    SELECT width_bucket(m.id, $1::uuid[]) AS n, m.cancel_requested, m.id, m.due_at,
        m.attempt, m.source, m.topic, m.queue, m.key, m.job, m.lane
    FROM {schema}.message m
    WHERE m.id = ANY($1::uuid[]) AND m.state + 0 = 1
      AND m.token = ($2::int8[])[width_bucket(m.id, $1::uuid[])]
    ORDER BY m.id
    FOR UPDATE OF m
), ended AS (
    SELECT * FROM current WHERE NOT cancel_requested
), back AS (
    UPDATE {schema}.message m
    SET state = 0, due_at = ($12::timestamptz[])[width_bucket(m.id, $1::uuid[])],
        attempt = ($13::int4[])[width_bucket(m.id, $1::uuid[])],
        crashes = ($14::int4[])[width_bucket(m.id, $1::uuid[])],
        snoozes = ($15::int4[])[width_bucket(m.id, $1::uuid[])],
        error = coalesce(($16::text[])[width_bucket(m.id, $1::uuid[])], m.error),
        owner = NULL, token = NULL, lease_until = NULL
    WHERE m.id = ANY(ARRAY(SELECT c.id FROM current c WHERE NOT c.cancel_requested))
), appended AS (
    {append_attempts}
)
SELECT n::int8, job, lane, queue, cancel_requested FROM current
