"""What a request is answered with when it fails: the codes, and which error has which. It answers nobody."""

from typing import Any

from rowcrew import errors

INVALID_REQUEST = -32600
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
OVERLOADED = -32001

# The clients' sign that the same request may be sent again later.
TRY_AGAIN = {"codexErrorInfo": "server_overloaded"}

# One entry for each class of errors.py, so that a new one is thought about (a test holds it complete).
CODES: dict[type[errors.RowcrewError], int] = {
    errors.RowcrewError: INTERNAL,
    errors.InvalidRequest: INVALID_REQUEST,
    errors.NotFound: INVALID_REQUEST,
    errors.Conflict: INVALID_REQUEST,
    errors.LimitReached: OVERLOADED,
    errors.Interrupted: INTERNAL,
    errors.ModelError: INTERNAL,
    errors.StoreError: INTERNAL,
    errors.StoreBusy: OVERLOADED,
    errors.StoreDamaged: INTERNAL,
    errors.DiskFull: INTERNAL,
    errors.LeaseLost: INVALID_REQUEST,
}


class RpcError(Exception):
    """An answer that is an error."""

    def __init__(self, code: int, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    @property
    def shape(self) -> dict[str, Any]:
        data = {} if self.data is None else {"data": self.data}
        return {"code": self.code, "message": self.message, **data}


def overloaded(message: str) -> RpcError:
    return RpcError(OVERLOADED, message, dict(TRY_AGAIN))


def rpc_error_of(error: errors.RowcrewError) -> RpcError:
    """The answer for an error of rowcrew's. Its hint and state are in the data."""
    code = next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)
    data: dict[str, Any] = dict(TRY_AGAIN) if code == OVERLOADED else {}
    if error.hint is not None:
        data["hint"] = error.hint
    if isinstance(error, errors.Conflict) and error.state is not None:
        data["state"] = error.state
    return RpcError(code, error.message, data or None)
