
-- Appended to the fast path, for one message in a transaction of the application: a conflict must not break
-- that transaction, and the careful path finds out why nothing was stored.
ON CONFLICT DO NOTHING
RETURNING pg_current_xact_id()::text
