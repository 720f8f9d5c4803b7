SELECT 1 FROM {schema}.history f
WHERE f.message BETWEEN $1 AND $2 AND f.state IS NOT NULL AND f.ended_at >= $3
UNION ALL
SELECT 1 FROM {schema}.dead d WHERE d.id BETWEEN $1 AND $2
LIMIT 1
