CREATE TABLE threads (
  -- The order of creation, which is also the order of the list.
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  name TEXT,
  source TEXT NOT NULL,
  model TEXT,
  cwd TEXT NOT NULL,
  sandbox_mode TEXT NOT NULL,
  preview TEXT NOT NULL,
  -- Names, not references: a thread outlives the one that spawned it and the one it was copied from.
  parent_id TEXT,
  depth INTEGER NOT NULL CHECK (depth >= 0),
  forked_from_id TEXT,
  status TEXT NOT NULL
    CHECK (status IN ('pending_init', 'running', 'completed', 'errored', 'interrupted', 'shutdown')),
  status_text TEXT,
  owner_json TEXT CHECK (owner_json IS NULL OR json_valid(owner_json)),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  archived_at_ms INTEGER,
  CHECK ((parent_id IS NULL) = (depth = 0))
) STRICT;

CREATE INDEX threads_by_parent ON threads (parent_id, sequence) WHERE parent_id IS NOT NULL;
CREATE INDEX threads_by_change ON threads (updated_at_ms, sequence);
CREATE INDEX threads_owned ON threads (sequence) WHERE owner_json IS NOT NULL;
