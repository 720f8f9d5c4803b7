-- Due again. One whose cancel was asked for meanwhile is only looked at.
-- A message is found by its id among the sorted ids of the batch, never by a join: a plan made while
-- the table was empty would walk all running messages for each of the batch. `state + 0` keeps the
-- partial indexes out for the same reason. What the message knows of its attempt is not sent; an array
-- in which nothing is set is empty and reads as NULL.
-- What is locked is updated by its id and not by its place: a lease that is extended while this waits for
-- the lock moves the row to a place this statement cannot see, and nothing would be written there.
WITH current AS MATERIALIZED (
    SELECT width_bucket(m.id, $1::uuid[]) AS n, m.cancel_requested, m.id, m.due_at,
        m.attempt, m.source, m.topic, m.queue, m.key, m.job, m.lane
    FROM {schema}.message m
    WHERE m.id = ANY($1::uuid[]) AND m.state + 0 = 1
      AND m.token = ($2::int8[])[width_bucket(m.id, $1::uuid[])]
    ORDER BY m.id
    FOR UPDATE OF m
), back AS (
    UPDATE {schema}.message m
    SET state = 0, due_at = ($12::timestamptz[])[width_bucket(m.id, $1::uuid[])],
        attempt = ($13::int4[])[width_bucket(m.id, $1::uuid[])],
        crashes = ($14::int4[])[width_bucket(m.id, $1::uuid[])],
        snoozes = ($15::int4[])[width_bucket(m.id, $1::uuid[])],
        error = coalesce(($16::text[])[width_bucket(m.id, $1::uuid[])], m.error),
        owner = NULL, token = NULL, lease_until = NULL
    WHERE m.id = ANY(ARRAY(SELECT c.id FROM current c WHERE NOT c.cancel_requested))
), told AS (
    INSERT INTO {schema}.history (id, message, process, due_at, started_at, ended_at, nominal, attempt,
        attempts_max, source, ending, topic, queue, key, job, note, log)
    SELECT e.execution, id, ($4::uuid[])[n], due_at, ($5::timestamptz[])[n], ($6::timestamptz[])[n],
        ($7::timestamptz[])[n], attempt,
        ($8::int4[])[n], source, ($9::int2[])[n], topic, queue, key, job, ($10::text[])[n],
        ($11::text[])[n]
    FROM (SELECT {id} AS execution, current.* FROM current WHERE NOT cancel_requested) AS e
    WHERE e.execution IS NOT NULL
)
SELECT n::int8, job, lane, queue, cancel_requested FROM current
