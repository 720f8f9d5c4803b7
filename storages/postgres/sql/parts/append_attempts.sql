INSERT INTO {schema}.history (id, message, process, due_at, started_at, ended_at, nominal, attempt,
        attempts_max, source, ending, topic, queue, key, job, note, log)
    SELECT e.execution, id, ($4::uuid[])[n], due_at, ($5::timestamptz[])[n], ($6::timestamptz[])[n],
        ($7::timestamptz[])[n], attempt,
        ($8::int4[])[n], source, ($9::int2[])[n], topic, queue, key, job, ($10::text[])[n],
        ($11::text[])[n]
    FROM (SELECT {id} AS execution, ended.* FROM ended) AS e
    WHERE e.execution IS NOT NULL
