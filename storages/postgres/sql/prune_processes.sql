DELETE FROM {schema}.process p
WHERE p.alive_until < $1
  AND NOT EXISTS (SELECT 1 FROM {schema}.message m WHERE m.state = 1 AND m.owner = p.id)
