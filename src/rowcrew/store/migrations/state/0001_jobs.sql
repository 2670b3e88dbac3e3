CREATE TABLE agent_jobs (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  status TEXT NOT NULL
    CHECK (status IN ('pending', 'running', 'paused', 'completed', 'failed', 'cancelled')),
  instruction TEXT NOT NULL,
  auto_export INTEGER NOT NULL CHECK (auto_export IN (0, 1)),
  max_runtime_seconds REAL NOT NULL CHECK (max_runtime_seconds > 0),
  output_schema_json TEXT CHECK (output_schema_json IS NULL OR json_valid(output_schema_json)),
  input_headers_json TEXT NOT NULL CHECK (json_valid(input_headers_json)),
  input_csv_path TEXT NOT NULL,
  output_csv_path TEXT NOT NULL,
  output_is_ours INTEGER NOT NULL DEFAULT 0 CHECK (output_is_ours IN (0, 1)),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  started_at_ms INTEGER,
  completed_at_ms INTEGER,
  last_error TEXT,
  settings_json TEXT NOT NULL CHECK (json_valid(settings_json)),
  fingerprint TEXT NOT NULL,
  input_digest TEXT NOT NULL,
  input_size INTEGER NOT NULL,
  paused_reason TEXT
    CHECK (paused_reason IN ('user', 'account', 'disk_full', 'budget', 'quota', 'interrupted')),
  lease_epoch INTEGER NOT NULL DEFAULT 0,
  lease_owner TEXT,
  lease_host TEXT,
  lease_pid INTEGER,
  lease_pid_started TEXT,
  lease_boot_id TEXT,
  lease_heartbeat_at_ms INTEGER,
  lease_heartbeat_up_ms INTEGER,
  run_started_at_ms INTEGER,
  run_started_done INTEGER,
  CHECK ((status IN ('completed', 'failed', 'cancelled')) = (completed_at_ms IS NOT NULL)),
  CHECK ((status = 'paused') = (paused_reason IS NOT NULL)),
  CHECK ((lease_owner IS NULL) = (lease_pid IS NULL))
) STRICT;

CREATE INDEX agent_jobs_by_status ON agent_jobs (status, updated_at_ms);
CREATE INDEX agent_jobs_by_fingerprint ON agent_jobs (fingerprint);

CREATE TABLE agent_job_items (
  job_id TEXT NOT NULL REFERENCES agent_jobs (id) ON DELETE CASCADE,
  item_id TEXT NOT NULL,
  row_index INTEGER NOT NULL,
  source_id TEXT,
  row_json TEXT NOT NULL CHECK (json_valid(row_json)),
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'running', 'completed', 'failed')),
  assigned_thread_id TEXT,
  attempt_count INTEGER NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
  result_json TEXT CHECK (result_json IS NULL OR json_valid(result_json)),
  last_error TEXT,
  error_class TEXT,
  not_before_at_ms INTEGER NOT NULL DEFAULT 0,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  completed_at_ms INTEGER,
  reported_at_ms INTEGER,
  PRIMARY KEY (job_id, item_id),
  CHECK ((status IN ('completed', 'failed')) = (completed_at_ms IS NOT NULL)),
  CHECK ((status = 'completed') = (result_json IS NOT NULL)),
  CHECK ((result_json IS NOT NULL) = (reported_at_ms IS NOT NULL)),
  CHECK (assigned_thread_id IS NULL OR status = 'running')
) STRICT;

CREATE INDEX agent_job_items_by_status ON agent_job_items (job_id, status, row_index);
CREATE INDEX agent_job_items_by_row ON agent_job_items (job_id, row_index);
CREATE INDEX agent_job_items_waiting ON agent_job_items (job_id, not_before_at_ms)
  WHERE status = 'pending' AND not_before_at_ms > 0;

-- One row a job, so that counting 300,000 rows costs one look-up. The trigger below keeps it; the CHECK is the
-- rule that total = pending + running + completed + failed.
CREATE TABLE agent_job_totals (
  job_id TEXT PRIMARY KEY REFERENCES agent_jobs (id) ON DELETE CASCADE,
  total INTEGER NOT NULL,
  pending INTEGER NOT NULL CHECK (pending >= 0),
  running INTEGER NOT NULL CHECK (running >= 0),
  completed INTEGER NOT NULL CHECK (completed >= 0),
  failed INTEGER NOT NULL CHECK (failed >= 0),
  requests INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  cached_input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  CHECK (total = pending + running + completed + failed)
) STRICT;

CREATE TRIGGER agent_job_items_counted AFTER UPDATE OF status ON agent_job_items
WHEN old.status <> new.status
BEGIN
  UPDATE agent_job_totals SET
    pending = pending + (new.status = 'pending') - (old.status = 'pending'),
    running = running + (new.status = 'running') - (old.status = 'running'),
    completed = completed + (new.status = 'completed') - (old.status = 'completed'),
    failed = failed + (new.status = 'failed') - (old.status = 'failed')
  WHERE job_id = new.job_id;
END;

CREATE TABLE agent_job_attempts (
  id INTEGER PRIMARY KEY,
  job_id TEXT NOT NULL,
  item_id TEXT NOT NULL,
  thread_id TEXT NOT NULL UNIQUE,
  number INTEGER NOT NULL,
  counted INTEGER NOT NULL DEFAULT 1 CHECK (counted IN (0, 1)),
  started_at_ms INTEGER NOT NULL,
  ended_at_ms INTEGER,
  outcome TEXT NOT NULL DEFAULT 'running' CHECK (outcome IN ('running', 'reported', 'failed', 'released')),
  error_class TEXT,
  error TEXT,
  raw_answer TEXT,
  invalid_reports INTEGER NOT NULL DEFAULT 0,
  pid INTEGER,
  pid_started TEXT,
  boot_id TEXT,
  requests INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  cached_input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  FOREIGN KEY (job_id, item_id) REFERENCES agent_job_items (job_id, item_id) ON DELETE CASCADE,
  CHECK ((outcome = 'running') = (ended_at_ms IS NULL))
) STRICT;

CREATE INDEX agent_job_attempts_by_item ON agent_job_attempts (job_id, item_id, id);
