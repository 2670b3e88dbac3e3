-- name: add_usage
-- With every end of an attempt that knows what it cost.
UPDATE agent_job_totals SET requests = requests + :requests, input_tokens = input_tokens + :input_tokens,
  cached_input_tokens = cached_input_tokens + :cached_input_tokens,
  output_tokens = output_tokens + :output_tokens, reasoning_tokens = reasoning_tokens + :reasoning_tokens,
  priced_requests = priced_requests + :priced_requests, cost_nanos = cost_nanos + :cost_nanos
WHERE job_id = :job_id

-- name: add_usage_to_attempt
-- As add_usage, for the attempt itself.
UPDATE agent_job_attempts SET requests = requests + :requests, input_tokens = input_tokens + :input_tokens,
  cached_input_tokens = cached_input_tokens + :cached_input_tokens,
  output_tokens = output_tokens + :output_tokens, reasoning_tokens = reasoning_tokens + :reasoning_tokens,
  priced_requests = priced_requests + :priced_requests, cost_nanos = cost_nanos + :cost_nanos
WHERE thread_id = :thread_id

-- name: assign
-- Startups, when a worker has started. Guard: still running and nobody's. The attempt counts from here.
UPDATE agent_job_items SET assigned_thread_id = :thread_id, attempt_count = attempt_count + 1,
  updated_at_ms = :now
WHERE job_id = :job_id AND item_id = :item_id AND status = 'running' AND assigned_thread_id IS NULL
RETURNING attempt_count

-- name: claim_all
-- With claimable, in its transaction: rowid, and thread where the attempt begins with the claim.
UPDATE agent_job_items SET status = 'running', updated_at_ms = :now, assigned_thread_id = r.value ->> 'thread_id',
  attempt_count = attempt_count + (r.value ->> 'thread_id' IS NOT NULL)
FROM json_each(:claimed_json) AS r WHERE agent_job_items.rowid = r.value ->> 'rowid' AND status = 'pending'

-- name: claimable
-- The runner. Guard: pending, its time has come, the job runs under this lease. Lowest row first.
-- A row that was last written in the future has met a clock that was set back: its wait would last as long.
SELECT json_group_array(json_object('rowid', rowid, 'job_id', job_id, 'item_id', item_id,
  'row_index', row_index, 'source_id', source_id, 'row_json', row_json, 'status', 'running',
  'assigned_thread_id', NULL, 'attempt_count', attempt_count, 'result_json', result_json,
  'last_error', last_error, 'error_class', error_class, 'not_before_at_ms', not_before_at_ms,
  'created_at_ms', created_at_ms, 'updated_at_ms', :now, 'completed_at_ms', completed_at_ms,
  'reported_at_ms', reported_at_ms))
FROM (
  SELECT rowid, * FROM agent_job_items
  WHERE job_id = :job_id AND status = 'pending' AND (not_before_at_ms <= :now OR updated_at_ms > :now)
    AND EXISTS (SELECT 1 FROM agent_jobs WHERE id = :job_id AND status = 'running' AND lease_epoch = :epoch)
  ORDER BY row_index LIMIT :limit)

-- name: count_invalid_reports
-- For a report from another process: an attempt may mend what it reports a few times only.
SELECT invalid_reports FROM agent_job_attempts WHERE thread_id = :thread_id

-- name: end_attempt
-- With every move that ends an attempt. Guard: it has not ended before.
UPDATE agent_job_attempts SET ended_at_ms = :now, outcome = :outcome, counted = :counted,
  error_class = :error_class, error = :error, raw_answer = coalesce(:raw_answer, raw_answer)
WHERE thread_id = :thread_id AND ended_at_ms IS NULL

-- name: end_reported
-- With report_all: the attempts, and what they cost. Guard: not ended before.
UPDATE agent_job_attempts SET ended_at_ms = r.value ->> 'now', outcome = 'reported', counted = 1,
  error_class = NULL, error = NULL,
  requests = requests + (r.value ->> 'requests'),
  input_tokens = input_tokens + (r.value ->> 'input_tokens'),
  cached_input_tokens = cached_input_tokens + (r.value ->> 'cached_input_tokens'),
  output_tokens = output_tokens + (r.value ->> 'output_tokens'),
  reasoning_tokens = reasoning_tokens + (r.value ->> 'reasoning_tokens'),
  priced_requests = priced_requests + (r.value ->> 'priced_requests'),
  cost_nanos = cost_nanos + (r.value ->> 'cost_nanos')
FROM json_each(:reports_json) AS r WHERE thread_id = r.value ->> 'thread_id' AND ended_at_ms IS NULL

-- name: fail
-- The runner, when no attempt is left. Guard: running, and this thread's (or nobody's).
UPDATE agent_job_items SET status = 'failed', last_error = :error, error_class = :error_class,
  assigned_thread_id = NULL, completed_at_ms = :now, updated_at_ms = :now
WHERE job_id = :job_id AND item_id = :item_id AND status = 'running' AND assigned_thread_id IS :thread_id

-- name: fenced
-- First in every write of a runner: 1 while its lease is the job's.
SELECT 1 FROM agent_jobs WHERE id = :job_id AND lease_epoch = :epoch

-- name: get
-- JobService.item, and the checks behind a refused report.
SELECT * FROM agent_job_items WHERE job_id = :job_id AND item_id = :item_id

-- name: insert
-- JobItemStore.insert_all, once a row at creation.
INSERT INTO agent_job_items (job_id, item_id, row_index, source_id, row_json, created_at_ms, updated_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: insert_attempt
-- With assign, in its transaction.
INSERT INTO agent_job_attempts (job_id, item_id, thread_id, number, started_at_ms, pid, pid_started, boot_id)
VALUES (:job_id, :item_id, :thread_id, :number, :now, :pid, :pid_started, :boot_id)

-- name: insert_attempts
-- With claim_all, in its transaction: of those whose attempt begins with the claim.
INSERT INTO agent_job_attempts (job_id, item_id, thread_id, number, started_at_ms)
SELECT i.job_id, i.item_id, i.assigned_thread_id, i.attempt_count, :now
FROM json_each(:claimed_json) AS r JOIN agent_job_items AS i ON i.rowid = r.value ->> 'rowid'
ORDER BY r.key

-- name: invalid_report_of
-- The runner when a worker has ended: did it report, though wrongly?
SELECT error, raw_answer FROM agent_job_attempts WHERE thread_id = :thread_id AND invalid_reports > 0

-- name: iterate
-- The exporter: every job item in row order.
SELECT * FROM agent_job_items WHERE job_id = :job_id ORDER BY row_index

-- name: leftovers
-- Rescue: what a dead engine left running, with the process of its last attempt where there was one.
SELECT i.*, a.pid, a.pid_started, a.boot_id FROM agent_job_items i
LEFT JOIN agent_job_attempts a ON a.thread_id = i.assigned_thread_id
WHERE i.job_id = :job_id AND i.status = 'running' ORDER BY i.row_index

-- name: lingering
-- Before a dead owner's lease is taken: workers of its last minute, whose attempts are over but which it may
-- not have seen end. Guard: the lease is still that owner's.
SELECT a.thread_id, a.pid, a.pid_started, a.boot_id FROM agent_job_attempts a
JOIN agent_jobs j ON j.id = a.job_id
WHERE a.job_id = :job_id AND j.lease_owner = :owner AND a.pid IS NOT NULL
  AND a.ended_at_ms >= j.lease_heartbeat_at_ms - 60000

-- name: list_attempts
-- JobService.item, oldest first.
SELECT * FROM agent_job_attempts WHERE job_id = :job_id AND item_id = :item_id ORDER BY id

-- name: list_failures
-- JobService.result: the first failed job items.
SELECT item_id, source_id, last_error FROM agent_job_items
WHERE job_id = :job_id AND status = 'failed' ORDER BY row_index LIMIT :limit

-- name: list_page
-- JobService.items.
SELECT * FROM agent_job_items WHERE job_id = :job_id ORDER BY row_index LIMIT :limit OFFSET :offset

-- name: list_page_with_status
-- JobService.items of one status.
SELECT * FROM agent_job_items WHERE job_id = :job_id AND status = :status
ORDER BY row_index LIMIT :limit OFFSET :offset

-- name: list_running
-- The runner's view: which job items the store shows as running, and whose they are.
SELECT item_id, assigned_thread_id FROM agent_job_items WHERE job_id = :job_id AND status = 'running'

-- name: next_ready_at
-- The runner after a claim that found too little: when the next waiting job item may be claimed.
SELECT min(not_before_at_ms) FROM agent_job_items
WHERE job_id = :job_id AND status = 'pending' AND not_before_at_ms > 0

-- name: note_invalid_report
-- A report that breaks the rules. Guard: the attempt has not ended. The last one is kept.
UPDATE agent_job_attempts SET invalid_reports = invalid_reports + 1, error = :error, raw_answer = :raw_answer
WHERE job_id = :job_id AND item_id = :item_id AND thread_id = :thread_id AND ended_at_ms IS NULL
RETURNING invalid_reports

-- name: release
-- No agent slot, an interrupted start, a clean shutdown, a rate limit. The attempt, if there was one, is
-- uncounted. Guard: running, and this thread's (or nobody's).
UPDATE agent_job_items SET status = 'pending', assigned_thread_id = NULL, not_before_at_ms = :not_before,
  attempt_count = attempt_count - (assigned_thread_id IS NOT NULL), updated_at_ms = :now
WHERE job_id = :job_id AND item_id = :item_id AND status = 'running' AND assigned_thread_id IS :thread_id

-- name: report_all
-- Workers' reports. Guard: running, and this thread's. Nothing of the attempts before is left in it.
UPDATE agent_job_items SET status = 'completed', result_json = r.value ->> 'result_json', last_error = NULL,
  error_class = NULL, assigned_thread_id = NULL, reported_at_ms = r.value ->> 'now',
  completed_at_ms = r.value ->> 'now', updated_at_ms = r.value ->> 'now'
FROM json_each(:reports_json) AS r
WHERE job_id = r.value ->> 'job_id' AND item_id = r.value ->> 'item_id' AND status = 'running'
  AND assigned_thread_id = r.value ->> 'thread_id'

-- name: retry
-- An attempt ended badly and another is left. Guard: running, and this thread's.
UPDATE agent_job_items SET status = 'pending', assigned_thread_id = NULL, last_error = :error,
  error_class = :error_class, not_before_at_ms = :not_before, updated_at_ms = :now
WHERE job_id = :job_id AND item_id = :item_id AND status = 'running' AND assigned_thread_id IS :thread_id

-- name: retry_failed
-- On a user's word. Guard: failed. The attempts begin anew.
UPDATE agent_job_items SET status = 'pending', attempt_count = 0, completed_at_ms = NULL,
  not_before_at_ms = 0, updated_at_ms = :now
WHERE job_id = :job_id AND status = 'failed' AND (:item_id IS NULL OR item_id = :item_id)

-- name: thread_of_attempt
-- Behind a refused report: which job item a thread was given.
SELECT job_id, item_id FROM agent_job_attempts WHERE thread_id = :thread_id
