"""Whatever the collector was told before a run holds again after the last one."""

import gc
from collections.abc import Iterator

import pytest

from rowcrew.scheduler.collecting import YOUNG, sparing


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


def test_what_was_there_is_left_alone_until_the_last_of_several_runs_has_ended() -> None:
    gc.set_threshold(700, 11, 12)
    before = gc.get_freeze_count()
    with sparing():
        with sparing():
            assert gc.get_freeze_count() > before
        assert gc.get_freeze_count() > before
        assert gc.get_threshold() == (YOUNG, 11, 12)
    assert gc.get_freeze_count() <= before
    assert gc.get_threshold() == (700, 11, 12)


@pytest.mark.parametrize("young", [0, YOUNG + 1], ids=["switched off", "higher already"])
def test_who_has_told_the_collector_otherwise_is_heard(young: int) -> None:
    gc.set_threshold(young, 11, 12)
    with sparing():
        assert gc.get_threshold() == (young, 11, 12)
    assert gc.get_threshold() == (young, 11, 12)


def test_a_run_that_breaks_leaves_nothing_behind() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with pytest.raises(ZeroDivisionError), sparing():
        raise ZeroDivisionError
    assert gc.get_freeze_count() <= frozen
    assert gc.get_threshold() == before
