-- Small documents that are neither messages nor jobs: records of a server. The body is JSON as text, because jsonb
-- refuses a zero character and changes the order of members.
CREATE TABLE {schema}.document (
    kind       text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    expires_at timestamptz,
    body       text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, key)
);
CREATE INDEX document_expires ON {schema}.document (expires_at) WHERE expires_at IS NOT NULL;
