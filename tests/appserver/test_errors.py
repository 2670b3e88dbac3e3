"""The table from errors to codes."""

import inspect

import pytest

from rowcrew import errors
from rowcrew.appserver.errors import CODES, rpc_error_of
from rowcrew.errors import Conflict, ErrorClass, LimitReached, ModelError, NotFound, RowcrewError

ALL = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.RowcrewError)
]


def test_every_error_has_a_code() -> None:
    assert set(CODES) == set(ALL)


@pytest.mark.parametrize(
    ("error", "shape"),
    [
        (NotFound("no such thread"), {"code": -32600, "message": "no such thread"}),
        (
            Conflict("it runs", state="running", hint="wait"),
            {"code": -32600, "message": "it runs", "data": {"hint": "wait", "state": "running"}},
        ),
        (
            LimitReached("full"),
            {"code": -32001, "message": "full", "data": {"codexErrorInfo": "server_overloaded"}},
        ),
        (ModelError("no", error_class=ErrorClass.REFUSED), {"code": -32603, "message": "no"}),
    ],
)
def test_an_error_is_answered_with_its_code_its_hint_and_its_state(
    error: RowcrewError, shape: dict[str, object]
) -> None:
    assert rpc_error_of(error).shape == shape
