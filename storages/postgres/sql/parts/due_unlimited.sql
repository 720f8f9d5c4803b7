SELECT m.ctid AS place, m.due_at, m.id
        FROM {schema}.message m
        WHERE m.state = 0 AND m.lane IS NULL AND m.queue = $1 AND m.priority = mark.priority
          AND m.due_at <= $2 AND (m.due_at, m.id) > (mark.due_at, mark.id)
          AND {topic_fits} AND {not_blocked} AND {first_exclusive}
        ORDER BY m.due_at, m.id
        LIMIT $3
        FOR UPDATE OF m SKIP LOCKED
