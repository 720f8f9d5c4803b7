-- Indexes for lists. Only messages with a key are in them.
DROP INDEX {schema}.message_about;
CREATE INDEX message_about ON {schema}.message (key, topic) WHERE key IS NOT NULL;
CREATE INDEX dead_key ON {schema}.dead (key, id) WHERE key IS NOT NULL;
CREATE INDEX history_key ON {schema}.history (key, message) WHERE key IS NOT NULL AND state IS NOT NULL;
