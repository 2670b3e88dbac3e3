"""For tests, public: a scripted model server, a clock to move by hand, an event log, factories."""

from rowcrew.testing.answers import (
    Answer,
    CallTool,
    Cut,
    Failure,
    HalfJson,
    Received,
    Reply,
    Script,
    Silence,
    context_too_long,
    out_of_credit,
    overloaded,
    rate_limited,
    unauthorized,
)
from rowcrew.testing.event_log import EventLog
from rowcrew.testing.factories import RecordingReporter, Reported, make_order
from rowcrew.testing.fake_clock import FakeClock
from rowcrew.testing.server import ModelServer

__all__ = [
    "Answer",
    "CallTool",
    "Cut",
    "EventLog",
    "Failure",
    "FakeClock",
    "HalfJson",
    "ModelServer",
    "Received",
    "RecordingReporter",
    "Reply",
    "Reported",
    "Script",
    "Silence",
    "context_too_long",
    "make_order",
    "out_of_credit",
    "overloaded",
    "rate_limited",
    "unauthorized",
]
