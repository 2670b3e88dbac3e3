-- name: append
-- TurnQueueStore.append. The place is the database's: behind all that the thread has.
INSERT INTO queued_turns (id, thread_id, client_id, position, status, text, options_json,
  created_at_ms, updated_at_ms)
SELECT :id, :thread_id, :client_id, coalesce(max(position), 0) + 1, 'pending', :text, :options_json, :now, :now
FROM queued_turns WHERE thread_id = :thread_id
RETURNING *

-- name: claim_head
-- The dispatcher. Guard: the head itself is pending (a failed or dispatching head blocks), no hold.
UPDATE queued_turns SET status = 'dispatching', owner_json = :owner_json, updated_at_ms = :now
WHERE id = (SELECT id FROM queued_turns WHERE thread_id = :thread_id ORDER BY position LIMIT 1)
  AND status = 'pending'
  AND NOT EXISTS (SELECT 1 FROM queue_holds WHERE thread_id = :thread_id)
RETURNING *

-- name: delete
-- TurnQueueStore.delete. Guard: what has been started is not deleted any more.
DELETE FROM queued_turns WHERE id = :id AND thread_id = :thread_id AND status IN ('pending', 'failed')

-- name: delete_hold
-- The user started a turn or said go on; the thread is deleted.
DELETE FROM queue_holds WHERE thread_id = :thread_id

-- name: delete_receipts
-- TurnQueueStore.delete_thread.
DELETE FROM queued_turn_receipts WHERE thread_id = :thread_id

-- name: delete_thread
-- TurnQueueStore.delete_thread. No guard: nothing of a deleted thread stays.
DELETE FROM queued_turns WHERE thread_id = :thread_id

-- name: fail
-- The dispatcher, when the turn could not be started; recover. Guard: dispatching.
UPDATE queued_turns SET status = 'failed', failure = :reason, owner_json = NULL, updated_at_ms = :now
WHERE id = :id AND status = 'dispatching'

-- name: find
-- Behind a refused move, and for whoever shows one entry.
SELECT * FROM queued_turns WHERE id = :id AND thread_id = :thread_id

-- name: find_receipt
-- TurnQueueStore.append: what this client id stood for.
SELECT queued_turn_id, digest FROM queued_turn_receipts WHERE thread_id = :thread_id AND client_id = :client_id

-- name: fingerprint
-- TurnQueueStore.fingerprint: asked after every change, so that it stays in the database and reads no text.
SELECT group_concat(concat_ws(' ', id, status, position, updated_at_ms)) FROM (
  SELECT id, status, position, updated_at_ms FROM queued_turns
  WHERE thread_id = :thread_id AND status IN ('pending', 'failed') ORDER BY position
)

-- name: insert_hold
-- The dispatcher after an interrupt. Once is enough.
INSERT INTO queue_holds (thread_id, held_at_ms) VALUES (:thread_id, :now) ON CONFLICT DO NOTHING

-- name: insert_receipt
-- TurnQueueStore.append, in the same transaction.
INSERT INTO queued_turn_receipts (thread_id, client_id, queued_turn_id, digest)
VALUES (:thread_id, :client_id, :id, :digest)

-- name: is_held
-- TurnQueueStore.is_held.
SELECT 1 FROM queue_holds WHERE thread_id = :thread_id

-- name: last_position
-- TurnQueueStore.reorder: new places lie behind every old one, so that no two ever collide.
SELECT coalesce(max(position), 0) FROM queued_turns WHERE thread_id = :thread_id

-- name: list_dispatching
-- TurnQueueStore.recover.
SELECT * FROM queued_turns WHERE status = 'dispatching' ORDER BY thread_id

-- name: list_like
-- TurnQueueStore.list_like: also what is being dispatched, so that a door can say that it has been started.
SELECT * FROM queued_turns WHERE thread_id = :thread_id AND substr(id, 1, length(:prefix)) = :prefix
ORDER BY position LIMIT :limit

-- name: list_page
-- What users see: dispatching is hidden.
SELECT * FROM queued_turns WHERE thread_id = :thread_id AND status IN ('pending', 'failed')
ORDER BY position LIMIT :limit OFFSET :offset

-- name: list_ready_threads
-- The dispatcher at start and on its timer: the threads whose head could be claimed.
SELECT q.thread_id FROM queued_turns q
WHERE q.status = 'pending'
  AND q.position = (SELECT min(position) FROM queued_turns WHERE thread_id = q.thread_id)
  AND NOT EXISTS (SELECT 1 FROM queue_holds h WHERE h.thread_id = q.thread_id)
ORDER BY q.thread_id

-- name: list_visible_ids
-- TurnQueueStore.reorder.
SELECT id FROM queued_turns WHERE thread_id = :thread_id AND status IN ('pending', 'failed') ORDER BY position

-- name: move
-- TurnQueueStore.reorder, all visible entries at once, in the order of the array. Guard: visible.
UPDATE queued_turns SET position = :last + 1 + wanted.key, updated_at_ms = :now
FROM json_each(:ids_json) AS wanted
WHERE queued_turns.id = wanted.value AND thread_id = :thread_id AND status IN ('pending', 'failed')

-- name: remove
-- The dispatcher when a turn has ended. Guard: only the entry whose dispatched turn this is.
DELETE FROM queued_turns WHERE thread_id = :thread_id AND turn_id = :turn_id AND status = 'dispatching'

-- name: retry
-- On a user's word. Guard: failed.
UPDATE queued_turns SET status = 'pending', failure = NULL, turn_id = NULL, updated_at_ms = :now
WHERE id = :id AND thread_id = :thread_id AND status = 'failed'

-- name: set_turn_id
-- The dispatcher before it starts the turn. Guard: dispatching, and not as another turn.
UPDATE queued_turns SET turn_id = :turn_id, updated_at_ms = :now
WHERE id = :id AND status = 'dispatching' AND (turn_id IS NULL OR turn_id = :turn_id)

-- name: update
-- TurnQueueStore.update. Guard: what has been started is not rewritten any more.
UPDATE queued_turns SET text = :text, options_json = coalesce(:options_json, options_json), updated_at_ms = :now
WHERE id = :id AND thread_id = :thread_id AND status IN ('pending', 'failed')
