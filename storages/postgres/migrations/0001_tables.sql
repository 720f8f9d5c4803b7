-- The tables of Punctual. {schema} is replaced by the quoted name of the schema.
--
-- Text is compared byte by byte (COLLATE "C"): names are only compared for equality, and jobs are
-- listed in the order of their bytes, as every other storage does.

-- Hot: pending (state 0) and running (state 1) only. Ended messages are moved out.
CREATE TABLE {schema}.message (
    id               uuid PRIMARY KEY,
    queue            text COLLATE "C" NOT NULL,
    topic            text COLLATE "C" NOT NULL,
    priority         smallint NOT NULL,
    state            smallint NOT NULL DEFAULT 0,
    source           smallint NOT NULL,
    exclusive        boolean NOT NULL DEFAULT false,
    cancel_requested boolean NOT NULL DEFAULT false,
    due_at           timestamptz NOT NULL,
    planned_at       timestamptz NOT NULL,
    created_at       timestamptz NOT NULL,
    attempt          integer NOT NULL DEFAULT 0,
    crashes          integer NOT NULL DEFAULT 0,
    snoozes          integer NOT NULL DEFAULT 0,
    owner            uuid,
    token            bigint,
    lease_until      timestamptz,
    key              text COLLATE "C",
    dedupe           text COLLATE "C",
    job              text COLLATE "C",
    body             bytea NOT NULL,
    extra            text COLLATE "C",
    error            text COLLATE "C",
    -- What few messages have: the limit they share and its maximum, the batch they belong to or wait for, and the
    -- progress that their handler reported.
    lane             text COLLATE "C",
    lane_max         integer,
    batch            uuid,
    waits_for        uuid,
    -- Whether the deduplication key is free again: NULL when it is reserved while the message is alive, false and
    -- then true when it is reserved until the first claim.
    released         boolean,
    progress         text COLLATE "C",
    checkpoint       text COLLATE "C"
) WITH (
    -- Every message is written twice and deleted once, so dead rows appear as fast as messages end. Vacuum must
    -- begin early at any size of the table, with a short cost delay.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 1,
    autovacuum_vacuum_cost_limit = 2000,
    autovacuum_vacuum_insert_scale_factor = 0.5,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_analyze_threshold = 5000
);

-- Order of a claim, one priority after the other; future messages are behind the due ones.
-- Messages that share a limit have separate indexes, so that many of them do not slow down other claims.
CREATE INDEX message_pending ON {schema}.message (queue, priority DESC, due_at, id)
    WHERE state = 0 AND lane IS NULL;
CREATE INDEX message_limited ON {schema}.message (queue, priority DESC, due_at, id)
    WHERE state = 0 AND lane IS NOT NULL;
-- How many of a limit run, and messages that wait for it.
CREATE INDEX message_lane ON {schema}.message (lane, state, queue, priority DESC, due_at, id)
    WHERE lane IS NOT NULL;
-- Used by the rescuer and by searches for an owner.
CREATE INDEX message_running ON {schema}.message (owner, lease_until) WHERE state = 1;
CREATE UNIQUE INDEX message_dedupe ON {schema}.message (dedupe)
    WHERE dedupe IS NOT NULL AND released IS NOT TRUE;
CREATE INDEX message_about ON {schema}.message (topic, key) WHERE key IS NOT NULL;
CREATE INDEX message_job ON {schema}.message (job, state) WHERE job IS NOT NULL;
-- Two exclusive messages of one job never run together; this is enforced by the index.
CREATE UNIQUE INDEX message_exclusive ON {schema}.message (job) WHERE state = 1 AND exclusive AND job IS NOT NULL;
CREATE INDEX message_batch ON {schema}.message (batch) WHERE batch IS NOT NULL;
CREATE INDEX message_waiting ON {schema}.message (waits_for) WHERE waits_for IS NOT NULL;

-- Assigned after the row is locked: every lease has a token greater than all before.
CREATE SEQUENCE {schema}.token AS bigint;

-- Dead letters.
CREATE TABLE {schema}.dead (
    id         uuid PRIMARY KEY,
    queue      text COLLATE "C" NOT NULL,
    topic      text COLLATE "C" NOT NULL,
    priority   smallint NOT NULL,
    source     smallint NOT NULL,
    exclusive  boolean NOT NULL,
    due_at     timestamptz NOT NULL,
    planned_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL,
    attempt    integer NOT NULL,
    crashes    integer NOT NULL,
    snoozes    integer NOT NULL,
    reason     smallint,
    key        text COLLATE "C",
    dedupe     text COLLATE "C",
    job        text COLLATE "C",
    body       bytea NOT NULL,
    extra      text COLLATE "C",
    error      text COLLATE "C",
    batch      uuid,
    progress   text COLLATE "C",
    checkpoint text COLLATE "C"
);
CREATE INDEX dead_ended ON {schema}.dead (ended_at, id);
CREATE INDEX dead_job ON {schema}.dead (job) WHERE job IS NOT NULL;
CREATE INDEX dead_batch ON {schema}.dead (batch) WHERE batch IS NOT NULL;

-- The history: a row for every attempt that ended and for every occurrence that was skipped. The attempt that finished
-- its message, done (state 2) or cancelled (4), also contains the rest of that message; a message that was finished
-- without a recorded attempt has a row without an id. Appended, read seldom, and dropped a day at a time.
CREATE TABLE {schema}.history (
    id           uuid,
    message      uuid,
    process      uuid,
    due_at       timestamptz NOT NULL,
    started_at   timestamptz,
    ended_at     timestamptz NOT NULL,
    nominal      timestamptz,
    planned_at   timestamptz,
    created_at   timestamptz,
    attempt      integer NOT NULL,
    attempts_max integer,
    crashes      integer,
    snoozes      integer,
    source       smallint NOT NULL,
    ending       smallint,
    priority     smallint,
    state        smallint,
    exclusive    boolean,
    topic        text COLLATE "C" NOT NULL,
    queue        text COLLATE "C" NOT NULL,
    key          text COLLATE "C",
    job          text COLLATE "C",
    note         text COLLATE "C",
    dedupe       text COLLATE "C",
    body         bytea,
    extra        text COLLATE "C",
    error        text COLLATE "C",
    log          text COLLATE "C",
    batch        uuid,
    progress     text COLLATE "C",
    checkpoint   text COLLATE "C"
) PARTITION BY RANGE (ended_at);
CREATE UNIQUE INDEX history_id ON {schema}.history (id, ended_at) WHERE id IS NOT NULL;
-- Every row is in one of these two, so that neither a page of messages nor one of attempts scans rows of the other
-- kind.
CREATE INDEX history_finished ON {schema}.history (message) WHERE state IS NOT NULL;
CREATE INDEX history_attempt ON {schema}.history (message) WHERE state IS NULL;
CREATE INDEX history_job ON {schema}.history (job, id) WHERE job IS NOT NULL;
CREATE INDEX history_batch ON {schema}.history (batch) WHERE batch IS NOT NULL;
CREATE INDEX history_ended ON {schema}.history USING brin (ended_at) WITH (pages_per_range = 32);
-- Rows of days without a partition, so that a write never fails.
CREATE TABLE {schema}.history_rest PARTITION OF {schema}.history DEFAULT;
CREATE INDEX history_rest_order ON {schema}.history_rest (ended_at);

-- A job's record is JSON; the other columns are the queried fields, computed from it.
CREATE TABLE {schema}.job (
    name    text COLLATE "C" PRIMARY KEY,
    due_at  timestamptz,
    paused  boolean NOT NULL,
    version bigint NOT NULL,
    app     text COLLATE "C" NOT NULL,
    phase   smallint NOT NULL,
    record  json NOT NULL
) WITH (fillfactor = 60);
CREATE INDEX job_due ON {schema}.job (due_at, name) WHERE due_at IS NOT NULL;

-- Heartbeats of processes. Updated in place.
CREATE TABLE {schema}.process (
    id          uuid PRIMARY KEY,
    alive_until timestamptz NOT NULL
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200);

-- Deduplication keys reserved until an instant.
CREATE TABLE {schema}.held_key (
    key     text COLLATE "C" PRIMARY KEY,
    message uuid NOT NULL,
    until   timestamptz NOT NULL
);
CREATE INDEX held_key_until ON {schema}.held_key (until);

-- Until when each rate is used up. Updated in place.
CREATE TABLE {schema}.rate (
    name       text COLLATE "C" PRIMARY KEY,
    used_until timestamptz NOT NULL
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200);

-- Which groups receive which topics.
CREATE TABLE {schema}.topic_group (
    topic     text COLLATE "C" NOT NULL,
    "group"   text COLLATE "C" NOT NULL,
    joined_at timestamptz NOT NULL,
    PRIMARY KEY (topic, "group")
);

-- Deliveries a group has handled.
CREATE TABLE {schema}.inbox (
    "group"  text COLLATE "C" NOT NULL,
    message  uuid NOT NULL,
    seen_at  timestamptz NOT NULL,
    PRIMARY KEY ("group", message)
);
CREATE INDEX inbox_seen ON {schema}.inbox (seen_at);
