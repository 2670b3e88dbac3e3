CREATE TABLE turns (
  thread_id TEXT NOT NULL,
  -- Unique in its thread only: a fork keeps the ids of the turns that it copies.
  id TEXT NOT NULL,
  sequence INTEGER NOT NULL CHECK (sequence > 0),
  status TEXT NOT NULL CHECK (status IN ('inProgress', 'completed', 'interrupted', 'failed')),
  started_at_ms INTEGER NOT NULL,
  completed_at_ms INTEGER,
  duration_ms INTEGER CHECK (duration_ms >= 0),
  error_json TEXT CHECK (error_json IS NULL OR json_valid(error_json)),
  usage_json TEXT NOT NULL CHECK (json_valid(usage_json)),
  owner_json TEXT CHECK (owner_json IS NULL OR json_valid(owner_json)),
  -- 1: it did not end by itself; a restart found it in progress.
  settled INTEGER NOT NULL DEFAULT 0 CHECK (settled IN (0, 1)),
  PRIMARY KEY (thread_id, id),
  UNIQUE (thread_id, sequence),
  CHECK ((status = 'inProgress') = (completed_at_ms IS NULL)),
  CHECK ((status = 'inProgress') = (owner_json IS NOT NULL)),
  CHECK (duration_ms IS NULL OR status <> 'inProgress'),
  CHECK (error_json IS NULL OR status = 'failed'),
  CHECK (settled = 0 OR status = 'interrupted')
) STRICT;

CREATE UNIQUE INDEX turns_one_in_progress ON turns (thread_id) WHERE status = 'inProgress';

CREATE TABLE turn_items (
  thread_id TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  id TEXT NOT NULL,
  sequence INTEGER NOT NULL CHECK (sequence > 0),
  kind TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('inProgress', 'completed', 'failed', 'interrupted')),
  content_json TEXT NOT NULL CHECK (json_valid(content_json) AND json_type(content_json) = 'object'),
  started_at_ms INTEGER NOT NULL,
  completed_at_ms INTEGER,
  PRIMARY KEY (thread_id, id),
  UNIQUE (thread_id, turn_id, sequence),
  FOREIGN KEY (thread_id, turn_id) REFERENCES turns (thread_id, id) ON DELETE CASCADE,
  CHECK ((status = 'inProgress') = (completed_at_ms IS NULL))
) STRICT;

-- The conversation as the model gets it, so that a thread can be resumed. Each row is an array of messages.
CREATE TABLE model_messages (
  thread_id TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  sequence INTEGER NOT NULL CHECK (sequence > 0),
  messages_json TEXT NOT NULL CHECK (json_valid(messages_json) AND json_type(messages_json) = 'array'),
  PRIMARY KEY (thread_id, turn_id, sequence),
  FOREIGN KEY (thread_id, turn_id) REFERENCES turns (thread_id, id) ON DELETE CASCADE
) STRICT;
