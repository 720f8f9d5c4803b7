SELECT 1 FROM {schema}.finished f WHERE f.id = ANY($1::uuid[]) AND f.ended_at >= $2
UNION ALL
SELECT 1 FROM {schema}.dead d WHERE d.id = ANY($1::uuid[])
LIMIT 1
