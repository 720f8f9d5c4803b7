-- Reserves keys until an instant. Reservations of the messages in $4 were read before and may be overwritten;
-- one of another message makes the count smaller.
INSERT INTO {schema}.held_key AS h (key, message, until)
SELECT e.* FROM unnest($1::text[], $2::uuid[], $3::timestamptz[]) AS e(key, message, until)
ON CONFLICT (key) DO UPDATE SET message = excluded.message, until = excluded.until
WHERE h.message = ANY($4::uuid[])
