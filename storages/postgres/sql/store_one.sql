
-- Put behind the usual enqueue, for one message of a transaction that is not ours: a conflict must not
-- break that transaction, and the careful way finds out why nothing was stored.
ON CONFLICT DO NOTHING
RETURNING pg_current_xact_id()::text
