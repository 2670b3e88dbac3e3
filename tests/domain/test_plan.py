"""Every scheduling rule, as a table."""

from dataclasses import replace

import pytest

from rowcrew.domain.job import JobStatus
from rowcrew.domain.plan import (
    MAX_CLAIM,
    TICK,
    Finish,
    HeldSlot,
    Launch,
    Reap,
    Reclaim,
    Rescue,
    Teardown,
    View,
    Wait,
    next_actions,
)

NOW = 100.0
IDLE = View(now=NOW, status=JobStatus.RUNNING, pending=0, running=0, capacity=4)
READY = replace(IDLE, pending=10, ready_at=NOW)
BUSY = (HeldSlot("a", deadline=NOW + 60), HeldSlot("b", deadline=NOW + 50))


@pytest.mark.parametrize(
    ("story", "view", "actions"),
    [
        ("nothing pending, nothing running: the job is done", IDLE, [Finish()]),
        ("free slots are filled at once", READY, [Launch(4), Wait(TICK)]),
        ("no more is claimed than is pending", replace(READY, pending=2), [Launch(2), Wait(TICK)]),
        (
            "a held slot counts against the capacity",
            replace(READY, running=2, slots=BUSY),
            [Launch(2), Wait(TICK)],
        ),
        (
            "a full house waits",
            replace(READY, running=2, slots=BUSY, capacity=2),
            [Wait(TICK)],
        ),
        (
            "one claim stays bounded however much is free",
            replace(READY, pending=9999, capacity=9999),
            [Launch(MAX_CLAIM), Wait(TICK)],
        ),
        (
            "an item that the store shows as done frees its slot before anything else, for the next one",
            replace(
                READY, running=1, slots=(HeldSlot("a", NOW + 60, running_in_store=False), BUSY[1]), capacity=2
            ),
            [Reclaim(("a",)), Launch(1), Wait(TICK)],
        ),
        (
            "what has run too long is reaped before anything is launched",
            replace(READY, running=2, slots=(HeldSlot("a", NOW), HeldSlot("b", NOW + 1))),
            [Reap(("a",))],
        ),
        (
            "nothing is claimed before its time, and the wait ends with it",
            replace(READY, ready_at=NOW + 0.03),
            [Wait(pytest.approx(0.03))],
        ),
        (
            "a provider's rate limit holds all launches",
            replace(READY, held_until=NOW + 0.02),
            [Wait(pytest.approx(0.02))],
        ),
        ("no agent slot: wait, never spin", replace(READY, has_agent_room=False), [Wait(TICK)]),
        (
            "only starts are pending: the wait still returns, so that stale starts can be reaped",
            replace(IDLE, running=1, slots=(HeldSlot("a", NOW + 0.01),)),
            [Wait(pytest.approx(0.01))],
        ),
        (
            "the store shows running what no slot holds",
            replace(IDLE, running=1, pending=3, ready_at=NOW),
            [Rescue()],
        ),
        (
            "a cancelled job ends its workers first",
            replace(READY, status=JobStatus.CANCELLED, running=2, slots=BUSY),
            [Teardown()],
        ),
        (
            "a cancelled job with its workers asked waits for them",
            replace(READY, status=JobStatus.CANCELLED, running=2, slots=BUSY, torn_down=True),
            [Wait(TICK)],
        ),
        ("a cancelled job launches nothing more", replace(READY, status=JobStatus.CANCELLED), [Finish()]),
        ("a paused job launches nothing more", replace(READY, status=JobStatus.PAUSED), [Finish()]),
        ("an interrupt ends the workers", replace(READY, slots=BUSY, stopping=True), [Teardown()]),
        (
            "a report during the teardown still frees its slot",
            replace(
                READY, slots=(HeldSlot("a", NOW, running_in_store=False),), stopping=True, torn_down=True
            ),
            [Reclaim(("a",)), Finish()],
        ),
    ],
)
def test_next_actions(story: str, view: View, actions: list[object]) -> None:
    assert next_actions(view) == actions, story
