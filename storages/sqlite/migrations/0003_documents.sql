-- Small documents that are neither messages nor jobs: records of a server. The body is JSON. Keys are compared byte by
-- byte, which is the default of SQLite.
CREATE TABLE punctual_document (
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  version INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  expires_at INTEGER,
  body TEXT NOT NULL,
  PRIMARY KEY (kind, key)
) STRICT;
CREATE INDEX punctual_document_expires ON punctual_document (expires_at) WHERE expires_at IS NOT NULL;
