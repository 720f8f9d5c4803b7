(NOT m.exclusive OR m.job IS NULL
               OR (SELECT 1 FROM {schema}.message r WHERE r.job = m.job AND r.state + 0 = 1 LIMIT 1) IS NULL)
          AND (m.source <> 1 OR m.job IS NULL
               OR (SELECT j.paused FROM {schema}.job j WHERE j.name = m.job) IS NOT TRUE)
