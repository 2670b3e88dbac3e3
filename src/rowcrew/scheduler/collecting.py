"""Keeps Python's garbage collector from the same walk over and over while jobs run. It collects nothing.

A process that has loaded a model library holds half a million objects that stay, and the collector walks
through all of them every few hundred rows: a tenth of a second in which no row goes on.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# A row makes some hundred objects and lets go of nearly all by itself. What is left can wait for more of it.
YOUNG = 5_000


class _Sparing:
    """How many runs there are now, and what held before the first of them."""

    runs = 0
    thresholds = (0, 0, 0)


@contextmanager
def sparing() -> Iterator[None]:
    """While a run is under way: what is there now is not walked through, what comes is, and less often."""
    if _Sparing.runs == 0:
        _Sparing.thresholds = young, *older = gc.get_threshold()
        gc.freeze()
        # Who has switched the collector off, or set it higher, meant it.
        gc.set_threshold(max(young, YOUNG) if young else 0, *older)
    _Sparing.runs += 1
    try:
        yield
    finally:
        _Sparing.runs -= 1
        if _Sparing.runs == 0:
            gc.unfreeze()
            gc.set_threshold(*_Sparing.thresholds)
