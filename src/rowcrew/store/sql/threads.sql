-- name: add_all
-- ThreadStore.add_all. Guard: there is none of this id.
INSERT INTO threads (id, name, source, model, cwd, sandbox_mode, preview, parent_id, depth, forked_from_id,
  status, status_text, owner_json, created_at_ms, updated_at_ms)
SELECT r.value ->> 'id', r.value ->> 'name', r.value ->> 'source', r.value ->> 'model', r.value ->> 'cwd',
  r.value ->> 'sandbox_mode', r.value ->> 'preview', r.value ->> 'parent_id', r.value ->> 'depth',
  r.value ->> 'forked_from_id', r.value ->> 'status', r.value ->> 'status_text', r.value ->> 'owner_json',
  :now, :now
FROM json_each(:threads_json) AS r WHERE true ORDER BY r.key
ON CONFLICT (id) DO NOTHING

-- name: archive
-- ThreadStore.archive. Guard: not archived yet.
UPDATE threads SET archived_at_ms = :now, updated_at_ms = :now WHERE id = :thread_id AND archived_at_ms IS NULL

-- name: delete
-- ThreadStore.delete, the last step after its turns and its queue. Guard: alive in no process but this one.
DELETE FROM threads WHERE id = :thread_id AND (owner_json IS NULL OR owner_json = :owner_json)

-- name: find
-- Everyone who shows or starts a thread.
SELECT * FROM threads WHERE id = :thread_id

-- name: insert
-- ThreadStore.create.
INSERT INTO threads (id, name, source, model, cwd, sandbox_mode, preview, parent_id, depth, forked_from_id,
  status, created_at_ms, updated_at_ms)
VALUES (:id, :name, :source, :model, :cwd, :sandbox_mode, :preview, :parent_id, :depth, :forked_from_id,
  'pending_init', :now, :now)
RETURNING *

-- name: let_go
-- The threads' loops have ended. Guard: only their owner.
UPDATE threads SET owner_json = NULL
WHERE id IN (SELECT value FROM json_each(:thread_ids_json)) AND owner_json = :owner_json

-- name: list_by_change
-- ThreadStore.list_page, the last changed first. A cursor is the place of the last one shown.
SELECT * FROM threads
WHERE (:archived IS NULL OR (archived_at_ms IS NOT NULL) = :archived)
  AND (:parent_id IS NULL OR parent_id = :parent_id)
  AND (:sources_json IS NULL OR source IN (SELECT value FROM json_each(:sources_json)))
  AND (:search IS NULL OR instr(lower(coalesce(name, '') || char(10) || preview), lower(:search)) > 0)
  AND (updated_at_ms, sequence) < (:before_ms, :before_sequence)
ORDER BY updated_at_ms DESC, sequence DESC LIMIT :limit

-- name: list_by_creation
-- ThreadStore.list_page, the newest first. A cursor is the place of the last one shown.
SELECT * FROM threads
WHERE (:archived IS NULL OR (archived_at_ms IS NOT NULL) = :archived)
  AND (:parent_id IS NULL OR parent_id = :parent_id)
  AND (:sources_json IS NULL OR source IN (SELECT value FROM json_each(:sources_json)))
  AND (:search IS NULL OR instr(lower(coalesce(name, '') || char(10) || preview), lower(:search)) > 0)
  AND sequence < :before_sequence
ORDER BY sequence DESC LIMIT :limit

-- name: list_descendants
-- ThreadStore.list_descendants: what a thread spawned, and what that spawned, in order of creation.
WITH RECURSIVE below (id) AS (
  SELECT id FROM threads WHERE parent_id = :thread_id
  UNION SELECT threads.id FROM threads JOIN below ON threads.parent_id = below.id
)
SELECT * FROM threads WHERE id IN below ORDER BY sequence

-- name: list_ids_like
-- The commands, which take any unique prefix.
SELECT id FROM threads WHERE substr(id, 1, length(:prefix)) = :prefix ORDER BY id LIMIT 6

-- name: list_orphans
-- After a job was deleted: the threads of its workers, alive nowhere, which no attempt knows any more.
SELECT id FROM threads WHERE source = 'job' AND owner_json IS NULL
  AND id NOT IN (SELECT thread_id FROM agent_job_attempts)

-- name: list_owned
-- ThreadStore.take_back and list_alive.
SELECT * FROM threads WHERE owner_json IS NOT NULL ORDER BY sequence

-- name: set_name
-- ThreadStore.set_name.
UPDATE threads SET name = :name, updated_at_ms = :now WHERE id = :thread_id

-- name: set_preview
-- The thread's first user message. Guard: only the first.
UPDATE threads SET preview = :preview, updated_at_ms = :now WHERE id = :thread_id AND preview = ''

-- name: set_settings
-- ThreadStore.set_settings: what a resume or a turn asked to be otherwise from now on.
UPDATE threads SET model = coalesce(:model, model), cwd = coalesce(:cwd, cwd),
  sandbox_mode = coalesce(:sandbox_mode, sandbox_mode), updated_at_ms = :now
WHERE id = :thread_id

-- name: set_statuses
-- The threads' loops, with each change of a status.
UPDATE threads SET status = r.value ->> 'status', status_text = r.value ->> 'status_text', updated_at_ms = :now
FROM json_each(:statuses_json) AS r WHERE threads.id = r.value ->> 'id'

-- name: settle
-- ThreadStore.take_back. Guard: still the dead owner's. What was at work is interrupted.
UPDATE threads SET owner_json = NULL,
  status_text = CASE WHEN status IN ('pending_init', 'running') THEN NULL ELSE status_text END,
  status = CASE WHEN status IN ('pending_init', 'running') THEN 'interrupted' ELSE status END
WHERE id = :thread_id AND owner_json = :owner_json

-- name: take
-- ThreadStore.take, after it has looked whose it is. Guard: as it was when looked at.
UPDATE threads SET owner_json = :owner_json WHERE id = :thread_id AND owner_json IS :held_json

-- name: unarchive
-- ThreadStore.unarchive. Guard: archived.
UPDATE threads SET archived_at_ms = NULL, updated_at_ms = :now
WHERE id = :thread_id AND archived_at_ms IS NOT NULL
