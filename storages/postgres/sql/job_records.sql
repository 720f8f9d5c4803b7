SELECT j.name, j.record::text FROM {schema}.job j WHERE j.name = ANY($1::text[])
