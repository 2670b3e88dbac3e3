"""Random operations on the queue of turns, against a model in plain lists: answers and lists must agree."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rowcrew.domain.queued_turn import NewQueuedTurn
from rowcrew.errors import Conflict, InvalidRequest
from rowcrew.processes import ProcessIdentity
from rowcrew.store.database import connect
from rowcrew.store.migrate import migrate
from rowcrew.store.turn_queue import DISPATCH_INTERRUPTED, TurnQueueStore

OWNERS = [ProcessIdentity(pid, "started", "boot") for pid in (11, 12)]
THREADS = ["t", "u"]
threads = st.sampled_from(THREADS)
owners = st.sampled_from(OWNERS)
texts = st.sampled_from(["hello", "bye"])
# Some entry of the thread by its place in all that it ever had, and sometimes one that never was.
places = st.integers(min_value=-1, max_value=8)
turn_ids = st.sampled_from(["turn 1", "turn 2"])


@dataclass
class Entry:
    """What the model knows of an entry."""

    id: str
    text: str
    status: str = "pending"
    failure: str | None = None
    turn_id: str | None = None
    owner: ProcessIdentity | None = None


@dataclass
class Queue:
    """The model of one thread: its entries in order, all ids it ever had, its client ids, its hold."""

    entries: list[Entry] = field(default_factory=list)
    ever: list[str] = field(default_factory=list)
    clients: dict[str, tuple[str, str]] = field(default_factory=dict)
    held: bool = False

    def named(self, place: int) -> str:
        return self.ever[place] if 0 <= place < len(self.ever) else "never was"

    def find(self, entry_id: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.id == entry_id), None)

    @property
    def visible(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.status != "dispatching"]

    @property
    def is_ready(self) -> bool:
        return bool(self.entries) and self.entries[0].status == "pending" and not self.held


class TurnQueues(RuleBasedStateMachine):
    """Two threads, two processes, one file."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.connection = connect(Path(self.folder.name) / "queue.sqlite")
        # Each example has some thousand small writes; that they reach the disk is another test's matter.
        self.connection.execute("PRAGMA synchronous = OFF")
        migrate(self.connection, "queue")
        self.store = TurnQueueStore(self.connection)
        self.model = {thread: Queue() for thread in THREADS}
        self.now = 0
        self.count = 0

    def teardown(self) -> None:
        self.connection.close()
        self.folder.cleanup()

    def tick(self) -> int:
        # The clock goes backwards, which must not matter to any order.
        self.now -= 1
        return 1_000_000 + self.now

    @rule(thread=threads, text=texts, client=st.sampled_from([None, "k1", "k2"]))
    def append(self, thread: str, text: str, client: str | None) -> None:
        model = self.model[thread]
        self.count += 1
        new = NewQueuedTurn(f"e{self.count}", thread, text, {}, client)
        if client is not None and client in model.clients:
            known_id, known_text = model.clients[client]
            if known_text != text:
                with pytest.raises(Conflict):
                    self.store.append(new, now=self.tick())
                return
            answer = self.store.append(new, now=self.tick())
            expected = "already_left" if model.find(known_id) is None else "already_queued"
            assert (answer.outcome, answer.id) == (expected, known_id)
            return
        assert self.store.append(new, now=self.tick()).outcome == "added"
        model.entries.append(Entry(new.id, text))
        model.ever.append(new.id)
        if client is not None:
            model.clients[client] = (new.id, text)

    @rule(thread=threads, place=places, text=texts)
    def update(self, thread: str, place: int, text: str) -> None:
        model = self.model[thread]
        entry = model.find(model.named(place))
        answer = self.store.update(thread, model.named(place), text=text, now=self.tick())
        assert answer == self.change_of(entry)
        if entry is not None and answer == "done":
            entry.text = text

    @rule(thread=threads, place=places)
    def delete(self, thread: str, place: int) -> None:
        model = self.model[thread]
        entry = model.find(model.named(place))
        answer = self.store.delete(thread, model.named(place))
        assert answer == self.change_of(entry)
        if entry is not None and answer == "done":
            model.entries.remove(entry)

    @staticmethod
    def change_of(entry: Entry | None) -> str:
        if entry is None:
            return "unknown"
        return "already_started" if entry.status == "dispatching" else "done"

    @rule(thread=threads, data=st.data())
    def reorder(self, thread: str, data: st.DataObject) -> None:
        model = self.model[thread]
        order = data.draw(st.permutations(model.visible))
        self.store.reorder(thread, [entry.id for entry in order], now=self.tick())
        dispatching = [entry for entry in model.entries if entry.status == "dispatching"]
        model.entries = dispatching + list(order)

    @rule(thread=threads, change=st.sampled_from(["one less", "one twice", "one more"]))
    def reorder_wrongly(self, thread: str, change: str) -> None:
        ids = [entry.id for entry in self.model[thread].visible]
        wrong = {"one less": ids[1:], "one twice": ids + ids[:1], "one more": [*ids, "never was"]}[change]
        if wrong == ids:
            return
        with pytest.raises(InvalidRequest):
            self.store.reorder(thread, wrong, now=self.tick())

    @rule(thread=threads, owner=owners)
    def claim_head(self, thread: str, owner: ProcessIdentity) -> None:
        model = self.model[thread]
        claimed = self.store.claim_head(thread, owner=owner, now=self.tick())
        assert (None if claimed is None else claimed.id) == (model.entries[0].id if model.is_ready else None)
        if claimed is not None:
            model.entries[0].status = "dispatching"
            model.entries[0].owner = owner

    @rule(thread=threads, place=places, turn_id=turn_ids)
    def set_turn_id(self, thread: str, place: int, turn_id: str) -> None:
        model = self.model[thread]
        entry = model.find(model.named(place))
        may = entry is not None and entry.status == "dispatching" and entry.turn_id in (None, turn_id)
        assert self.store.set_turn_id(model.named(place), turn_id=turn_id, now=self.tick()) == may
        if entry is not None and may:
            entry.turn_id = turn_id

    @rule(thread=threads, turn_id=turn_ids)
    def remove(self, thread: str, turn_id: str) -> None:
        model = self.model[thread]
        gone = [entry for entry in model.entries if (entry.status, entry.turn_id) == ("dispatching", turn_id)]
        assert self.store.remove(thread, turn_id=turn_id) == bool(gone)
        model.entries = [entry for entry in model.entries if entry not in gone]

    @rule(thread=threads, place=places)
    def fail(self, thread: str, place: int) -> None:
        model = self.model[thread]
        entry = model.find(model.named(place))
        may = entry is not None and entry.status == "dispatching"
        assert self.store.fail(model.named(place), reason="no model", now=self.tick()) == may
        if entry is not None and may:
            entry.status, entry.failure, entry.owner = "failed", "no model", None

    @rule(thread=threads, place=places)
    def retry(self, thread: str, place: int) -> None:
        model = self.model[thread]
        entry = model.find(model.named(place))
        answer = self.store.retry(thread, model.named(place), now=self.tick())
        outcomes = {"failed": "done", "pending": "not_failed", "dispatching": "already_started"}
        assert answer == ("unknown" if entry is None else outcomes[entry.status])
        if entry is not None and answer == "done":
            entry.status, entry.failure, entry.turn_id = "pending", None, None

    @rule(dead=st.sets(owners), ended=st.sets(st.tuples(threads, turn_ids)))
    def recover(self, dead: set[ProcessIdentity], ended: set[tuple[str, str]]) -> None:
        removed, failed = [], []
        for thread, model in self.model.items():
            for entry in [entry for entry in model.entries if entry.owner in dead]:
                if entry.turn_id is not None and (thread, entry.turn_id) in ended:
                    model.entries.remove(entry)
                    removed.append((thread, entry.id))
                else:
                    entry.status, entry.failure, entry.owner = "failed", DISPATCH_INTERRUPTED, None
                    failed.append((thread, entry.id))
        answer = self.store.recover(
            has_ended=lambda thread, turn: (thread, turn) in ended,
            is_dead=lambda owner: owner in dead,
            now=self.tick(),
        )
        assert (answer.removed, answer.failed) == (tuple(removed), tuple(failed))

    @rule(thread=threads)
    def hold(self, thread: str) -> None:
        model = self.model[thread]
        assert self.store.hold(thread, now=self.tick()) != model.held
        model.held = True

    @rule(thread=threads)
    def release(self, thread: str) -> None:
        model = self.model[thread]
        assert self.store.release(thread) == model.held
        model.held = False

    @rule(thread=threads)
    def delete_thread(self, thread: str) -> None:
        assert self.store.delete_thread(thread) == len(self.model[thread].entries)
        self.model[thread] = Queue()

    @invariant()
    def each_list_is_what_the_model_says(self) -> None:
        for thread, model in self.model.items():
            shown = [(entry.id, entry.text, str(entry.status)) for entry in self.store.list_page(thread)]
            assert shown == [(entry.id, entry.text, entry.status) for entry in model.visible]

    @invariant()
    def each_entry_is_what_the_model_says(self) -> None:
        for thread, model in self.model.items():
            for entry in model.entries:
                found = self.store.find(thread, entry.id)
                assert found is not None
                kept = Entry(
                    found.id, found.text, str(found.status), found.failure, found.turn_id, found.owner
                )
                assert kept == entry

    @invariant()
    def what_is_dispatching_is_alone_and_the_head(self) -> None:
        for model in self.model.values():
            assert "dispatching" not in [entry.status for entry in model.entries[1:]]

    @invariant()
    def ready_threads_are_those_whose_head_can_be_claimed(self) -> None:
        ready = [thread for thread, model in self.model.items() if model.is_ready]
        assert self.store.list_ready_threads() == ready


TestTurnQueues = TurnQueues.TestCase
TestTurnQueues.settings = settings(max_examples=100, stateful_step_count=40)
