-- name: cancel
-- JobService.cancel. Guard: final jobs stay as they are.
UPDATE agent_jobs SET status = 'cancelled', paused_reason = NULL, last_error = :message,
  completed_at_ms = :now, updated_at_ms = :now
WHERE id = :job_id AND status IN ('pending', 'running', 'paused')

-- name: complete
-- JobRunner at the end. Guard: still running, under this lease, and no job item is open.
UPDATE agent_jobs SET status = 'completed', last_error = NULL, completed_at_ms = :now, updated_at_ms = :now
WHERE id = :job_id AND status = 'running' AND lease_epoch = :epoch
  AND EXISTS (SELECT 1 FROM agent_job_totals WHERE job_id = :job_id AND pending = 0 AND running = 0)

-- name: delete
-- JobService.remove. Guard: nobody holds the lease. Job items, attempts and totals go with it.
DELETE FROM agent_jobs WHERE id = :job_id AND lease_owner IS NULL

-- name: fail
-- JobRunner when the engine could not do its work. Guard: not final yet.
UPDATE agent_jobs SET status = 'failed', last_error = :message, paused_reason = NULL,
  completed_at_ms = :now, updated_at_ms = :now
WHERE id = :job_id AND status IN ('pending', 'running')

-- name: find_unfinished_twin
-- JobService.create_from_table: the same input, instruction and settings, with rows left to do.
SELECT id FROM agent_jobs JOIN agent_job_totals ON job_id = id
WHERE fingerprint = :fingerprint
  AND (status IN ('pending', 'running', 'paused') OR agent_job_totals.pending > 0)
ORDER BY created_at_ms DESC, agent_jobs.rowid DESC LIMIT 1

-- name: find_writing_to
-- JobService.create_from_table: another unfinished job that will write the same file.
SELECT id FROM agent_jobs JOIN agent_job_totals ON job_id = id
WHERE output_csv_path = :path
  AND (status IN ('pending', 'running', 'paused') OR agent_job_totals.pending > 0)
LIMIT 1

-- name: get
-- Everyone who shows or runs a job.
SELECT j.*, t.total, t.pending, t.running, t.completed, t.failed,
  t.requests, t.input_tokens, t.cached_input_tokens, t.output_tokens, t.reasoning_tokens,
  t.priced_requests, t.cost_nanos
FROM agent_jobs j JOIN agent_job_totals t ON t.job_id = j.id
WHERE j.id = :job_id

-- name: heartbeat
-- Lease.keep. Guard: the epoch, so that a lost lease is noticed.
UPDATE agent_jobs SET lease_heartbeat_at_ms = :now, lease_heartbeat_up_ms = :up
WHERE id = :job_id AND lease_epoch = :epoch AND lease_owner = :owner

-- name: insert
-- JobStore.create, after the job items would have nothing to refer to.
INSERT INTO agent_jobs (id, name, status, instruction, auto_export, max_runtime_seconds, output_schema_json,
  input_headers_json, input_csv_path, output_csv_path, output_is_ours, created_at_ms, updated_at_ms,
  settings_json, fingerprint, input_digest, input_size)
VALUES (:id, :name, 'pending', :instruction, :auto_export, :max_runtime_seconds, :output_schema_json,
  :input_headers_json, :input_csv_path, :output_csv_path, :output_is_ours, :now, :now,
  :settings_json, :fingerprint, :input_digest, :input_size)

-- name: insert_totals
-- JobStore.create, once the number of job items is known.
INSERT INTO agent_job_totals (job_id, total, pending, running, completed, failed)
VALUES (:job_id, :total, :total, 0, 0, 0)

-- name: latest_id
-- JobService.find without an id.
SELECT id FROM agent_jobs ORDER BY created_at_ms DESC, rowid DESC LIMIT 1

-- name: latest_unfinished_id
-- JobService.find without an id, for resume.
SELECT id FROM agent_jobs JOIN agent_job_totals ON job_id = id
WHERE status IN ('pending', 'running', 'paused') OR agent_job_totals.pending > 0
ORDER BY created_at_ms DESC, agent_jobs.rowid DESC LIMIT 1

-- name: list_all
-- JobService.list, the newest first.
SELECT j.*, t.total, t.pending, t.running, t.completed, t.failed,
  t.requests, t.input_tokens, t.cached_input_tokens, t.output_tokens, t.reasoning_tokens,
  t.priced_requests, t.cost_nanos
FROM agent_jobs j JOIN agent_job_totals t ON t.job_id = j.id
ORDER BY j.created_at_ms DESC, j.rowid DESC

-- name: list_ids_like
-- JobService.find: the ids that begin with a prefix.
SELECT id FROM agent_jobs WHERE substr(id, 1, length(:prefix)) = :prefix ORDER BY id LIMIT 6

-- name: pause
-- JobService.pause and the runner. Guard: only what is not final and not paused yet.
UPDATE agent_jobs SET status = 'paused', paused_reason = :reason, last_error = :message, updated_at_ms = :now
WHERE id = :job_id AND status IN ('pending', 'running')

-- name: release_lease
-- JobRunner at its end, whatever the end. Guard: the epoch.
UPDATE agent_jobs SET lease_owner = NULL, lease_pid = NULL, updated_at_ms = :now
WHERE id = :job_id AND lease_epoch = :epoch

-- name: set_auto_export
-- JobService.start when the caller asks otherwise than at creation.
UPDATE agent_jobs SET auto_export = :auto_export, updated_at_ms = :now WHERE id = :job_id

-- name: set_output_is_ours
-- The exporter after its first file, which it may then replace.
UPDATE agent_jobs SET output_is_ours = 1 WHERE id = :job_id

-- name: start
-- JobStore.start. Guard: the transition table; a final job only with pending job items.
UPDATE agent_jobs SET status = 'running', paused_reason = NULL, completed_at_ms = NULL, last_error = NULL,
  started_at_ms = coalesce(started_at_ms, :now), updated_at_ms = :now, run_started_at_ms = :now,
  run_started_done = (SELECT completed + failed FROM agent_job_totals WHERE job_id = :job_id)
WHERE id = :job_id AND (status IN ('pending', 'running', 'paused')
  OR (SELECT pending FROM agent_job_totals WHERE job_id = :job_id) > 0)

-- name: status_of
-- The runner's view, many times a second.
SELECT j.status, j.lease_epoch, t.total, t.pending, t.running, t.completed, t.failed
FROM agent_jobs j JOIN agent_job_totals t ON t.job_id = j.id
WHERE j.id = :job_id

-- name: stop
-- A report with stop, in the report's own transaction. Guard: not final yet.
UPDATE agent_jobs SET status = 'cancelled', paused_reason = NULL, last_error = 'cancelled by worker request',
  completed_at_ms = :now, updated_at_ms = :now
WHERE id = :job_id AND status IN ('pending', 'running', 'paused')

-- name: take_lease
-- JobStore.take_lease, after it has looked who holds it. The epoch grows, which fences the owner before.
UPDATE agent_jobs SET lease_epoch = lease_epoch + 1, lease_owner = :owner, lease_host = :host,
  lease_pid = :pid, lease_pid_started = :pid_started, lease_boot_id = :boot_id,
  lease_heartbeat_at_ms = :now, lease_heartbeat_up_ms = :up
WHERE id = :job_id
RETURNING lease_epoch
