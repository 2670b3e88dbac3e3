"""The threads of the state file on a real file: what they are, how they are listed, whose they are."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from rowcrew.domain.events import AgentState, AgentStatus
from rowcrew.domain.thread import NewThread, Thread
from rowcrew.errors import InvalidRequest, NotFound
from rowcrew.processes import ProcessIdentity
from rowcrew.store.database import connect
from rowcrew.store.migrate import migrate
from rowcrew.store.threads import ThreadOrder, ThreadStore

ME = ProcessIdentity(11, "started", "boot")
OTHER = ProcessIdentity(12, "started", "boot")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    opened = connect(tmp_path / "state.sqlite")
    migrate(opened, "state")
    yield opened
    opened.close()


@pytest.fixture
def threads(connection: apsw.Connection) -> ThreadStore:
    return ThreadStore(connection)


def add(threads: ThreadStore, name: str, *, now: int = 1, parent: Thread | None = None) -> Thread:
    return threads.create(
        NewThread(
            name,
            "cli",
            "/somewhere",
            "read-only",
            parent_id=None if parent is None else parent.id,
            depth=0 if parent is None else parent.depth + 1,
        ),
        now=now,
    )


def page(threads: ThreadStore, *, order: ThreadOrder = "created", limit: int = 2) -> list[list[str]]:
    """All pages of a list, as ids."""
    pages, cursor = [], None
    while True:
        found = threads.list_page(limit=limit, cursor=cursor, order=order)
        pages.append([thread.id for thread in found.threads])
        cursor = found.next_cursor
        if cursor is None:
            return pages


def is_dead(owner: ProcessIdentity) -> bool:
    return owner == OTHER


def test_a_thread_is_kept_as_it_was_given(threads: ThreadStore) -> None:
    created = threads.create(
        NewThread("a", "exec", "/x", "workspace-write", "openai:gpt-5", "mine", "hi", "p", 1, "f"), now=7
    )
    assert created == Thread(
        id="a",
        name="mine",
        source="exec",
        model="openai:gpt-5",
        cwd="/x",
        sandbox_mode="workspace-write",
        preview="hi",
        parent_id="p",
        depth=1,
        forked_from_id="f",
        status=AgentStatus(AgentState.PENDING_INIT),
        owner=None,
        created_at_ms=7,
        updated_at_ms=7,
        archived_at_ms=None,
    )
    assert threads.get("a") == created
    assert threads.find("b") is None
    with pytest.raises(NotFound):
        threads.get("b")


def test_a_thread_that_is_added_is_what_it_would_be_step_by_step(threads: ThreadStore) -> None:
    status = AgentStatus(AgentState.ERRORED, "no")
    added = NewThread("added", "job", "/w", "read-only", name="n", preview="p")
    made = replace(added, id="made")
    assert threads.add_all([(added, status)], owner=ME, now=5) == 1
    threads.create(made, now=5)
    threads.take("made", owner=ME, is_dead=lambda _: False)
    threads.set_statuses({"made": status}, now=5)
    assert threads.get("added") == replace(threads.get("made"), id="added")
    running = AgentStatus(AgentState.RUNNING)
    more = replace(added, id="more")
    assert threads.add_all([(made, running), (more, running)], owner=None, now=9) == 1
    assert threads.get("more").status == running
    assert threads.get("made").status == status


def test_threads_are_listed_page_by_page_the_newest_first(threads: ThreadStore) -> None:
    for name in "abcde":
        add(threads, name)
    assert page(threads) == [["e", "d"], ["c", "b"], ["a"]]
    assert page(threads, limit=5) == [["e", "d", "c", "b", "a"]]


def test_a_thread_created_between_two_pages_moves_nothing(threads: ThreadStore) -> None:
    for name in "abc":
        add(threads, name)
    first = threads.list_page(limit=2)
    add(threads, "d")
    threads.delete("c", owner=ME)
    second = threads.list_page(limit=2, cursor=first.next_cursor)
    assert [thread.id for thread in second.threads] == ["a"]


def test_threads_can_be_listed_by_their_last_change(threads: ThreadStore) -> None:
    for now, name in enumerate("abcd"):
        add(threads, name, now=now)
    threads.set_name("a", name="first", now=9)
    threads.set_name("b", name="second", now=9)
    assert page(threads, order="changed", limit=3) == [["b", "a", "d"], ["c"]]
    assert page(threads, order="changed", limit=1) == [["b"], ["a"], ["d"], ["c"]]


def test_no_thread_is_one_empty_page(threads: ThreadStore) -> None:
    assert page(threads) == [[]]
    assert threads.list_page(limit=0).next_cursor is None


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.2", "9" * 30, "²", "1."])
def test_a_cursor_of_something_else_is_refused(threads: ThreadStore, cursor: str) -> None:
    with pytest.raises(InvalidRequest):
        threads.list_page(cursor=cursor)


@pytest.mark.parametrize("cursor", ["", "1", "1.", ".1", "1.2.3"])
def test_a_cursor_of_the_other_order_is_refused(threads: ThreadStore, cursor: str) -> None:
    with pytest.raises(InvalidRequest):
        threads.list_page(cursor=cursor, order="changed")


def test_archived_threads_are_listed_apart(threads: ThreadStore) -> None:
    add(threads, "a")
    add(threads, "b")
    assert threads.archive("a", now=5)
    assert not threads.archive("a", now=6)
    listed = {
        archived: [thread.id for thread in threads.list_page(archived=archived).threads]
        for archived in (False, True, None)
    }
    assert listed == {False: ["b"], True: ["a"], None: ["b", "a"]}
    assert (threads.get("a").is_archived, threads.get("a").archived_at_ms) == (True, 5)
    assert threads.unarchive("a", now=7)
    assert not threads.unarchive("a", now=8)
    assert not threads.get("a").is_archived


def test_a_list_can_be_narrowed_to_a_parent_a_source_or_a_word(threads: ThreadStore) -> None:
    parent = add(threads, "a")
    add(threads, "b", parent=parent)
    threads.create(NewThread("c", "exec", "/x", "read-only", preview="Tell me 100% of it"), now=1)
    threads.set_name("a", name="Weather", now=2)
    narrowed = [
        threads.list_page(parent_id="a"),
        threads.list_page(sources=["exec", "job"]),
        threads.list_page(sources=[]),
        threads.list_page(search="weath"),
        threads.list_page(search="100% OF"),
        threads.list_page(search="%"),
    ]
    assert [[thread.id for thread in found.threads] for found in narrowed] == [
        ["b"],
        ["c"],
        [],
        ["a"],
        ["c"],
        ["c"],
    ]


def test_ids_are_found_by_their_beginning(threads: ThreadStore) -> None:
    for name in ("abc", "abd", "b%"):
        add(threads, name)
    assert [threads.list_ids_like(prefix) for prefix in ("ab", "abc", "%", "b")] == [
        ["abc", "abd"],
        ["abc"],
        [],
        ["b%"],
    ]


def test_descendants_are_all_that_a_thread_led_to(threads: ThreadStore) -> None:
    root = add(threads, "root")
    child = add(threads, "child", parent=root)
    add(threads, "grandchild", parent=child)
    add(threads, "stranger")
    add(threads, "second child", parent=root)
    assert [(thread.id, thread.depth) for thread in threads.list_descendants("root")] == [
        ("child", 1),
        ("grandchild", 2),
        ("second child", 1),
    ]


def test_a_parent_has_a_depth_above_its_child(connection: apsw.Connection, threads: ThreadStore) -> None:
    with pytest.raises(apsw.ConstraintError):
        threads.create(NewThread("a", "cli", "/x", "read-only", parent_id="p", depth=0), now=1)


def test_each_change_is_kept_and_dated(threads: ThreadStore) -> None:
    add(threads, "a")
    assert threads.set_statuses({"a": AgentStatus(AgentState.ERRORED, "no key")}, now=2)
    assert threads.set_name("a", name="n\ud800", now=3)
    assert threads.set_settings("a", model="local", now=4)
    assert threads.set_settings("a", cwd="/y", sandbox_mode="workspace-write", now=5)
    kept = threads.get("a")
    assert (kept.status, kept.name, kept.model, kept.cwd, kept.sandbox_mode, kept.updated_at_ms) == (
        AgentStatus(AgentState.ERRORED, "no key"),
        "n\ufffd",
        "local",
        "/y",
        "workspace-write",
        5,
    )
    assert not threads.set_name("b", name="x", now=6)


def test_only_the_first_message_is_the_preview(threads: ThreadStore) -> None:
    add(threads, "a")
    assert threads.set_preview("a", preview="first", now=2)
    assert not threads.set_preview("a", preview="second", now=3)
    assert threads.get("a").preview == "first"


def test_a_stored_thread_is_never_not_found(threads: ThreadStore) -> None:
    add(threads, "a")
    with pytest.raises(InvalidRequest):
        threads.set_statuses({"a": AgentStatus(AgentState.NOT_FOUND)}, now=2)


def test_a_thread_is_alive_in_one_process_at_a_time(threads: ThreadStore) -> None:
    add(threads, "a")
    third = ProcessIdentity(13, "started", "boot")
    assert threads.take("a", owner=ME, is_dead=is_dead) is None
    assert threads.take("a", owner=ME, is_dead=is_dead) is None
    assert threads.take("a", owner=third, is_dead=is_dead) == ME
    assert not threads.let_go("a", owner=third)
    assert threads.let_go("a", owner=ME)
    assert threads.take("a", owner=third, is_dead=is_dead) is None
    with pytest.raises(NotFound):
        threads.take("b", owner=ME, is_dead=is_dead)


def test_a_thread_of_a_dead_process_can_be_taken(threads: ThreadStore) -> None:
    add(threads, "a")
    threads.take("a", owner=OTHER, is_dead=is_dead)
    assert threads.list_alive(is_dead=is_dead) == []
    assert threads.take("a", owner=ME, is_dead=is_dead) is None
    assert [(thread.id, thread.owner) for thread in threads.list_alive(is_dead=is_dead)] == [("a", ME)]


def test_a_start_frees_the_threads_of_dead_processes_and_interrupts_what_was_at_work(
    threads: ThreadStore,
) -> None:
    states = {
        "at work": AgentStatus(AgentState.RUNNING),
        "starting": AgentStatus(AgentState.PENDING_INIT),
        "idle": AgentStatus(AgentState.COMPLETED, "done"),
    }
    for name, status in states.items():
        add(threads, name)
        threads.set_statuses({name: status}, now=2)
        threads.take(name, owner=OTHER, is_dead=is_dead)
    add(threads, "mine")
    threads.take("mine", owner=ME, is_dead=is_dead)
    assert threads.take_back(is_dead=is_dead) == ["at work", "starting", "idle"]
    assert threads.take_back(is_dead=is_dead) == []
    assert {name: (threads.get(name).status, threads.get(name).owner) for name in (*states, "mine")} == {
        "at work": (AgentStatus(AgentState.INTERRUPTED), None),
        "starting": (AgentStatus(AgentState.INTERRUPTED), None),
        "idle": (AgentStatus(AgentState.COMPLETED, "done"), None),
        "mine": (AgentStatus(AgentState.PENDING_INIT), ME),
    }


def test_a_thread_that_is_alive_elsewhere_is_not_deleted(threads: ThreadStore) -> None:
    parent = add(threads, "a")
    add(threads, "b", parent=parent)
    threads.take("a", owner=OTHER, is_dead=is_dead)
    assert not threads.delete("a", owner=ME)
    assert threads.delete("a", owner=OTHER)
    assert not threads.delete("a", owner=OTHER)
    assert threads.get("b").parent_id == "a"
