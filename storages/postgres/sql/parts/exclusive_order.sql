-- An exclusive message that shares a limit runs after those of its job that share none.
          (NOT m.exclusive OR m.job IS NULL
           OR (SELECT 1 FROM {schema}.message e
               WHERE e.job = m.job AND e.state + 0 = 0 AND e.exclusive AND e.queue = m.queue
                 AND e.lane IS NULL AND e.due_at <= $2 AND {other_topic_fits}
                 AND (e.source <> 1 OR (SELECT j.paused FROM {schema}.job j
                                        WHERE j.name = e.job) IS NOT TRUE)
               LIMIT 1) IS NULL)
