SELECT 1 FROM {schema}.history f
WHERE f.message = ANY($1::uuid[]) AND f.state IS NOT NULL AND f.ended_at >= $2
UNION ALL
SELECT 1 FROM {schema}.dead d WHERE d.id = ANY($1::uuid[])
LIMIT 1
