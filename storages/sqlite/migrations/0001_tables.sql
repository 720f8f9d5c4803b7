-- Tables of messages: alive, dead letters, history. Instants are microseconds since 1970; the numbers of states,
-- sources, reasons and endings are those of the crate punctual-columns.

-- Pending (0) and running (1) messages only, so that the hot table stays as small as the work to do. The body is the
-- last column, so that reading other columns does not read a large body.
--
-- Relations are in `extra`; the columns that statements use are the limit (lane), its maximum (lane_max), the batch,
-- and whether the deduplication key is free (freed).
CREATE TABLE punctual_message (
  id BLOB NOT NULL PRIMARY KEY,
  queue TEXT NOT NULL,
  topic TEXT NOT NULL,
  priority INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  planned_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  source INTEGER NOT NULL,
  key TEXT,
  dedupe TEXT,
  exclusive INTEGER NOT NULL,
  job TEXT,
  attempt INTEGER NOT NULL DEFAULT 0,
  crashes INTEGER NOT NULL DEFAULT 0,
  snoozes INTEGER NOT NULL DEFAULT 0,
  state INTEGER NOT NULL DEFAULT 0,
  owner BLOB,
  token INTEGER,
  lease_until INTEGER,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  error TEXT,
  lane TEXT,
  lane_max INTEGER,
  batch BLOB,
  freed INTEGER,
  progress TEXT,
  checkpoint TEXT,
  extra TEXT,
  body BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Messages of one limit are adjacent in the index, so a reached limit is skipped in one step.
CREATE INDEX punctual_message_pending ON punctual_message (queue, priority, lane, lane_max, due_at, id)
  WHERE state = 0;
CREATE INDEX punctual_message_running ON punctual_message (owner, lease_until, id) WHERE state = 1;
CREATE UNIQUE INDEX punctual_message_dedupe ON punctual_message (dedupe)
  WHERE dedupe IS NOT NULL AND freed IS NULL;
CREATE INDEX punctual_message_key ON punctual_message (topic, key) WHERE key IS NOT NULL;
CREATE INDEX punctual_message_job ON punctual_message (job, state) WHERE job IS NOT NULL;
CREATE INDEX punctual_message_lane ON punctual_message (lane, state, queue, due_at) WHERE lane IS NOT NULL;
CREATE INDEX punctual_message_batch ON punctual_message (batch, state) WHERE batch IS NOT NULL;
-- Two exclusive messages of a job never run together; this is enforced by the index.
CREATE UNIQUE INDEX punctual_message_exclusive ON punctual_message (job) WHERE state = 1 AND exclusive = 1;

-- Dead letters.
CREATE TABLE punctual_dead (
  id BLOB NOT NULL PRIMARY KEY,
  queue TEXT NOT NULL,
  topic TEXT NOT NULL,
  priority INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  planned_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  source INTEGER NOT NULL,
  key TEXT,
  dedupe TEXT,
  exclusive INTEGER NOT NULL,
  job TEXT,
  attempt INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  snoozes INTEGER NOT NULL,
  reason INTEGER,
  ended_at INTEGER NOT NULL,
  error TEXT,
  batch BLOB,
  progress TEXT,
  checkpoint TEXT,
  extra TEXT,
  body BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX punctual_dead_ended ON punctual_dead (ended_at, id);
CREATE INDEX punctual_dead_batch ON punctual_dead (batch) WHERE batch IS NOT NULL;

-- The history, kept until pruned: one row for each attempt that ended (it has an ending) and each occurrence
-- that was skipped. The attempt that finished its message, done (2) or cancelled (4), also contains the rest of that
-- message (it has a state); a message that was finished without an attempt has a row of its own.
--
-- Rows are ordered by id, and ids begin with the millisecond of their creation, so rows are nearly in the order of
-- their ends. If the end differs by more than a second, `strayed_at` contains it.
CREATE TABLE punctual_history (
  id BLOB NOT NULL PRIMARY KEY,
  message BLOB,
  state INTEGER,
  ending INTEGER,
  ended_at INTEGER,
  finished_at INTEGER,
  strayed_at INTEGER,
  queue TEXT NOT NULL,
  topic TEXT NOT NULL,
  key TEXT,
  job TEXT,
  nominal INTEGER,
  source INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  attempts_max INTEGER,
  process BLOB,
  due_at INTEGER NOT NULL,
  started_at INTEGER,
  note TEXT,
  log TEXT,
  priority INTEGER,
  planned_at INTEGER,
  created_at INTEGER,
  dedupe TEXT,
  exclusive INTEGER,
  crashes INTEGER,
  snoozes INTEGER,
  error TEXT,
  batch BLOB,
  progress TEXT,
  checkpoint TEXT,
  extra TEXT,
  body BLOB
) STRICT, WITHOUT ROWID;

CREATE INDEX punctual_history_message ON punctual_history (message, state);
CREATE INDEX punctual_history_strayed ON punctual_history (strayed_at) WHERE strayed_at IS NOT NULL;
CREATE INDEX punctual_history_job ON punctual_history (job, id) WHERE job IS NOT NULL;
CREATE INDEX punctual_history_batch ON punctual_history (batch, state) WHERE batch IS NOT NULL;
CREATE INDEX punctual_history_nominal ON punctual_history (nominal DESC) WHERE nominal IS NOT NULL;

-- Messages that wait for a batch. A row may outlive its message; it is deleted with the batch.
CREATE TABLE punctual_wait (
  batch BLOB NOT NULL,
  message BLOB NOT NULL,
  PRIMARY KEY (batch, message)
) STRICT, WITHOUT ROWID;

-- Deduplication keys reserved until an instant.
CREATE TABLE punctual_held (
  dedupe TEXT NOT NULL PRIMARY KEY,
  message BLOB NOT NULL,
  until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX punctual_held_until ON punctual_held (until);

-- Until when each rate is used up.
CREATE TABLE punctual_rate (
  name TEXT NOT NULL PRIMARY KEY,
  used_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Jobs: the record as JSON, and the columns that statements use. due_at is when the scheduler handles it next.
CREATE TABLE punctual_job (
  name TEXT NOT NULL PRIMARY KEY,
  due_at INTEGER,
  paused INTEGER NOT NULL,
  version INTEGER NOT NULL,
  app TEXT NOT NULL,
  phase TEXT NOT NULL,
  record TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX punctual_job_due ON punctual_job (due_at, name) WHERE due_at IS NOT NULL;
CREATE INDEX punctual_job_paused ON punctual_job (name) WHERE paused = 1;

-- Number of messages in each state of each queue, written with the messages themselves, so that counting does not
-- scan messages.
CREATE TABLE punctual_count (
  queue TEXT NOT NULL,
  state INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (queue, state)
) STRICT, WITHOUT ROWID;

-- Expiry of the heartbeat of each process.
CREATE TABLE punctual_process (
  id BLOB NOT NULL PRIMARY KEY,
  until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Numbers that only grow: the tokens of leases.
CREATE TABLE punctual_counter (
  name TEXT NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO punctual_counter (name, value) VALUES ('token', 0);

-- Which groups receive which topics.
CREATE TABLE punctual_group (
  topic TEXT NOT NULL,
  consumer_group TEXT NOT NULL,
  joined_at INTEGER NOT NULL,
  PRIMARY KEY (topic, consumer_group)
) STRICT, WITHOUT ROWID;

-- Deliveries a group has handled.
CREATE TABLE punctual_inbox (
  consumer_group TEXT NOT NULL,
  message BLOB NOT NULL,
  seen_at INTEGER NOT NULL,
  PRIMARY KEY (consumer_group, message)
) STRICT, WITHOUT ROWID;

CREATE INDEX punctual_inbox_seen ON punctual_inbox (seen_at);
