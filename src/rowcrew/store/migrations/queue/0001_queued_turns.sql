CREATE TABLE queued_turns (
  id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL,
  client_id TEXT,
  -- The order within the thread. The lowest is the head; a dispatching entry is always the head.
  position INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'dispatching', 'failed')),
  text TEXT NOT NULL,
  options_json TEXT NOT NULL CHECK (json_valid(options_json) AND json_type(options_json) = 'object'),
  turn_id TEXT,
  failure TEXT,
  owner_json TEXT CHECK (owner_json IS NULL OR json_valid(owner_json)),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  UNIQUE (thread_id, position),
  CHECK ((status = 'dispatching') = (owner_json IS NOT NULL)),
  CHECK ((status = 'failed') = (failure IS NOT NULL)),
  CHECK (turn_id IS NULL OR status <> 'pending')
) STRICT;

CREATE UNIQUE INDEX queued_turns_one_dispatching ON queued_turns (thread_id) WHERE status = 'dispatching';

-- What was appended under a client id, also after the entry was changed or has left: a client that did not
-- hear the answer may ask again at any time, and the turn is not run twice.
CREATE TABLE queued_turn_receipts (
  thread_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  queued_turn_id TEXT NOT NULL,
  digest TEXT NOT NULL,
  PRIMARY KEY (thread_id, client_id)
) STRICT, WITHOUT ROWID;

-- Threads whose queue waits for a user's word, since an interrupt.
CREATE TABLE queue_holds (
  thread_id TEXT PRIMARY KEY,
  held_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
