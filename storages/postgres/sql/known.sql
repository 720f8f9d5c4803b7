SELECT 1 FROM {schema}.finished f WHERE f.id BETWEEN $1 AND $2 AND f.ended_at >= $3
UNION ALL
SELECT 1 FROM {schema}.dead d WHERE d.id BETWEEN $1 AND $2
LIMIT 1
