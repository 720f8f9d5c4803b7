-- Returns the reservations of these deduplication keys, locked in the order of the keys.
SELECT h.key, h.message, h.until FROM {schema}.held_key h
WHERE h.key = ANY($1::text[])
ORDER BY h.key
FOR UPDATE OF h
