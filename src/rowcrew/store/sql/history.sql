-- name: append_messages
-- HistoryStore.append_messages. Guard: the turn is known.
INSERT INTO model_messages (thread_id, turn_id, sequence, messages_json)
SELECT thread_id, id, 1 + (SELECT coalesce(max(m.sequence), 0) FROM model_messages m
  WHERE m.thread_id = :thread_id AND m.turn_id = :turn_id), :messages_json
FROM turns WHERE thread_id = :thread_id AND id = :turn_id

-- name: count_turns
-- HistoryStore.count_turns.
SELECT count(*) FROM turns WHERE thread_id = :thread_id

-- name: delete_thread
-- HistoryStore.delete_thread. Turn items and model messages go with the turns.
DELETE FROM turns WHERE thread_id = :thread_id

-- name: end_turn
-- The one terminal move of a turn. Guard: in progress.
UPDATE turns SET status = :status, completed_at_ms = :completed_at_ms, duration_ms = :duration_ms,
  error_json = :error_json, usage_json = :usage_json, owner_json = NULL
WHERE thread_id = :thread_id AND id = :turn_id AND status = 'inProgress'

-- name: find_end
-- The turn queue's recovery. A turn that a crash cut off has not ended.
SELECT status FROM turns WHERE thread_id = :thread_id AND id = :turn_id AND status <> 'inProgress' AND settled = 0

-- name: find_turn
-- HistoryStore.find_turn.
SELECT * FROM turns WHERE thread_id = :thread_id AND id = :turn_id

-- name: fork_items
-- HistoryStore.fork, after the turns. What is open in the original is interrupted in the copy.
INSERT INTO turn_items (thread_id, turn_id, id, sequence, kind, status, content_json, started_at_ms,
  completed_at_ms)
SELECT :new_thread_id, i.turn_id, i.id, i.sequence, i.kind,
  iif(i.status = 'inProgress', 'interrupted', i.status), i.content_json, i.started_at_ms,
  coalesce(i.completed_at_ms, :now)
FROM turn_items i JOIN turns t ON t.thread_id = i.thread_id AND t.id = i.turn_id
WHERE t.thread_id = :thread_id AND t.sequence <= :last

-- name: fork_messages
-- HistoryStore.fork, after the turns.
INSERT INTO model_messages (thread_id, turn_id, sequence, messages_json)
SELECT :new_thread_id, m.turn_id, m.sequence, m.messages_json
FROM model_messages m JOIN turns t ON t.thread_id = m.thread_id AND t.id = m.turn_id
WHERE t.thread_id = :thread_id AND t.sequence <= :last

-- name: fork_turns
-- HistoryStore.fork. What is in progress in the original is interrupted in the copy.
INSERT INTO turns (thread_id, id, sequence, status, started_at_ms, completed_at_ms, duration_ms, error_json,
  usage_json, settled)
SELECT :new_thread_id, id, sequence, iif(status = 'inProgress', 'interrupted', status), started_at_ms,
  coalesce(completed_at_ms, :now), duration_ms, error_json, usage_json, settled
FROM turns WHERE thread_id = :thread_id AND sequence <= :last

-- name: keep_items
-- With keep_turns, in its transaction.
INSERT INTO turn_items (thread_id, turn_id, id, sequence, kind, status, content_json, started_at_ms,
  completed_at_ms)
SELECT r.value ->> 'thread_id', r.value ->> 'turn_id', r.value ->> 'item_id', r.value ->> 'sequence',
  r.value ->> 'kind', r.value ->> 'status', r.value ->> 'content_json', r.value ->> 'started_at_ms',
  r.value ->> 'completed_at_ms'
FROM json_each(:items_json) AS r

-- name: keep_messages
-- With keep_turns, in its transaction: the first of their turns.
INSERT INTO model_messages (thread_id, turn_id, sequence, messages_json)
SELECT r.value ->> 'thread_id', r.value ->> 'turn_id', 1, r.value ->> 'messages_json'
FROM json_each(:turns_json) AS r WHERE r.value ->> 'messages_json' IS NOT NULL

-- name: keep_turns
-- HistoryStore.keep_turns. Guards: as start_turn.
INSERT INTO turns (thread_id, id, sequence, status, started_at_ms, completed_at_ms, duration_ms, error_json,
  usage_json)
SELECT r.value ->> 'thread_id', r.value ->> 'turn_id',
  1 + (SELECT coalesce(max(sequence), 0) FROM turns WHERE thread_id = r.value ->> 'thread_id'),
  r.value ->> 'status', r.value ->> 'started_at_ms', r.value ->> 'completed_at_ms',
  r.value ->> 'duration_ms', r.value ->> 'error_json', r.value ->> 'usage_json'
FROM json_each(:turns_json) AS r
WHERE NOT EXISTS (SELECT 1 FROM turns WHERE thread_id = r.value ->> 'thread_id'
  AND (id = r.value ->> 'turn_id' OR status = 'inProgress'))

-- name: last_sequence
-- HistoryStore.fork of a whole thread.
SELECT coalesce(max(sequence), 0) FROM turns WHERE thread_id = :thread_id

-- name: list_items
-- HistoryStore, the turn items of a run of turns.
SELECT i.* FROM turn_items i JOIN turns t ON t.thread_id = i.thread_id AND t.id = i.turn_id
WHERE t.thread_id = :thread_id AND t.sequence BETWEEN :first AND :last
ORDER BY t.sequence, i.sequence

-- name: list_messages
-- HistoryStore.list_messages, in the order in which they came to be.
SELECT m.messages_json FROM model_messages m JOIN turns t ON t.thread_id = m.thread_id AND t.id = m.turn_id
WHERE t.thread_id = :thread_id ORDER BY t.sequence, m.sequence

-- name: list_open
-- HistoryStore.settle_open_turns.
SELECT thread_id, id, owner_json FROM turns WHERE status = 'inProgress' ORDER BY thread_id

-- name: list_turns
-- HistoryStore.list_turns, the oldest first.
SELECT * FROM turns WHERE thread_id = :thread_id AND sequence > :after ORDER BY sequence LIMIT :limit

-- name: list_turns_backwards
-- HistoryStore.list_turns, the newest first.
SELECT * FROM turns WHERE thread_id = :thread_id AND sequence < :before ORDER BY sequence DESC LIMIT :limit

-- name: save_item
-- HistoryStore.save_item. Guards: the turn is in progress; an item that has ended is not written again.
INSERT INTO turn_items (thread_id, turn_id, id, sequence, kind, status, content_json, started_at_ms,
  completed_at_ms)
SELECT thread_id, id, :item_id, 1 + (SELECT coalesce(max(i.sequence), 0) FROM turn_items i
  WHERE i.thread_id = :thread_id AND i.turn_id = :turn_id), :kind, :status, :content_json, :started_at_ms,
  :completed_at_ms
FROM turns WHERE thread_id = :thread_id AND id = :turn_id AND status = 'inProgress'
ON CONFLICT (thread_id, id) DO UPDATE SET status = excluded.status, content_json = excluded.content_json,
  completed_at_ms = excluded.completed_at_ms
WHERE turn_items.status = 'inProgress' AND turn_items.turn_id = excluded.turn_id

-- name: settle_items
-- With the end of a turn: nothing in it stays open.
UPDATE turn_items SET status = 'interrupted', completed_at_ms = :now
WHERE thread_id = :thread_id AND turn_id = :turn_id AND status = 'inProgress'

-- name: settle_turn
-- HistoryStore.settle_open_turns. Guard: in progress.
UPDATE turns SET status = 'interrupted', completed_at_ms = :now, owner_json = NULL, settled = 1
WHERE thread_id = :thread_id AND id = :turn_id AND status = 'inProgress'

-- name: start_turn
-- HistoryStore.start_turn. Guards: the id is new in the thread, and no turn of it is in progress.
INSERT INTO turns (thread_id, id, sequence, status, started_at_ms, usage_json, owner_json)
SELECT :thread_id, :turn_id, coalesce(max(sequence), 0) + 1, 'inProgress', :now, :usage_json, :owner_json
FROM turns WHERE thread_id = :thread_id
HAVING NOT EXISTS (SELECT 1 FROM turns WHERE thread_id = :thread_id
  AND (id = :turn_id OR status = 'inProgress'))
RETURNING sequence
