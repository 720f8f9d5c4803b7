WITH letters AS (DELETE FROM {schema}.dead WHERE id = ANY($1::uuid[]) RETURNING 1),
     rows AS (DELETE FROM {schema}.finished WHERE id = ANY($1::uuid[]) RETURNING 1)
SELECT (SELECT count(*) FROM letters) + (SELECT count(*) FROM rows)
