-- Indexes for lists. Only messages with a key, and dead letters of a job, are in them.
DROP INDEX punctual_message_key;
CREATE INDEX punctual_message_key ON punctual_message (key, topic) WHERE key IS NOT NULL;
CREATE INDEX punctual_dead_key ON punctual_dead (key, id) WHERE key IS NOT NULL;
CREATE INDEX punctual_dead_job ON punctual_dead (job, id) WHERE job IS NOT NULL;
CREATE INDEX punctual_history_key ON punctual_history (key, message) WHERE key IS NOT NULL AND state >= 0;
