-- Returns the earliest end of a lease or of its owner's heartbeat.
SELECT min(least(m.lease_until, p.alive_until))
FROM {schema}.message m
LEFT JOIN {schema}.process p ON p.id = m.owner
WHERE m.state = 1
