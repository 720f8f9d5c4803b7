DELETE FROM {schema}.message WHERE id = ANY($1::uuid[]) AND state + 0 = 0 RETURNING batch
