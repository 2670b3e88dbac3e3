"""What went wrong with a model request, as the error classes of a job have it. It asks and retries nothing.

The classes say what is to be done: REFUSED change this row's request, ACCOUNT see to the key or the credit,
RATE_LIMITED wait as told, PROVIDER try again later. No message holds a secret: keys from the environment and
anything that looks like one are masked, also where a provider repeats them.
"""

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelHTTPError,
    ModelOverloadedError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    UserError,
)

from rowcrew.errors import ErrorClass, ModelError

MASK = "***"
_MAX_MESSAGE = 500
_SHORTEST_SECRET = 8
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$", re.IGNORECASE)
_LOOKS_SECRET = re.compile(
    r"(?P<lead>\bBearer\s+|://[^/\s:@]*:(?=[^/\s@]*@)|\b(?:api[_-]?key|token)=)[^\s\"'@&]+"
    r"|\b(?:sk|pk|gsk|xai|r8|hf)[-_][A-Za-z0-9*_-]{4,}"
    r"|\bAIza[A-Za-z0-9_-]{8,}",
    re.IGNORECASE,
)
_TRY_LATER_STATUSES = frozenset({408, 409, 425})
_CODES_OF_ACCOUNT = frozenset({"insufficient_quota", "billing_not_active", "account_deactivated"})
_HINTS = {
    ErrorClass.ACCOUNT: "check the key and the credit of the account",
    ErrorClass.RATE_LIMITED: "a lower --max-concurrency asks less at once",
}


def secrets_of(environment: Mapping[str, str], *more: str | None) -> tuple[str, ...]:
    """Values that must not be shown: of variables named like keys, and those given. Longest first."""
    named = (value for name, value in environment.items() if _SECRET_NAME.search(name))
    values = {value for value in (*named, *more) if value and len(value) >= _SHORTEST_SECRET}
    return tuple(sorted(values, key=len, reverse=True))


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the secrets, and without what looks like one."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return _LOOKS_SECRET.sub(lambda found: f"{found['lead'] or ''}{MASK}", text)


def translate(error: Exception, *, provider: str, secrets: Iterable[str] = ()) -> ModelError:
    """The ModelError for whatever a model request raised."""
    error_class = _classify(error)
    text = " ".join(mask(f"{provider}: {_sentence(error)}", secrets).split())
    if len(text) > _MAX_MESSAGE:
        text = f"{text[: _MAX_MESSAGE - 1]}…"
    return ModelError(text, error_class=error_class, retry_after=_wait(error), hint=_HINTS.get(error_class))


def _wait(error: Exception) -> float | None:
    """Seconds that the provider asks to wait, also parts of one, which the library does not read."""
    if not isinstance(error, ModelAPIError):
        return None
    if error.retry_after is None and isinstance(error, ModelHTTPError) and error.headers is not None:
        with suppress(ValueError):
            seconds = float(error.headers.get("retry-after", ""))
            return seconds if 0 <= seconds < math.inf else None
    return error.retry_after


def _classify(error: Exception) -> ErrorClass:
    if isinstance(error, ModelAPIError):
        if isinstance(error, ModelQuotaExceededError) or error.provider_error_code in _CODES_OF_ACCOUNT:
            return ErrorClass.ACCOUNT
        if isinstance(error, ModelOverloadedError):
            return ErrorClass.PROVIDER
        return _of_status(error) if isinstance(error, ModelHTTPError) else _of_category(error)
    if isinstance(error, ContentFilterError | UserError | UnicodeEncodeError):
        return ErrorClass.REFUSED
    return ErrorClass.PROVIDER


def _of_status(error: ModelHTTPError) -> ErrorClass:
    status = error.status_code
    if (
        status == 403
    ):  # some gateways say with it that a row's text was flagged, which is that row's matter alone
        return _of_category(error) if isinstance(error, ModelRequestRejectedError) else ErrorClass.ACCOUNT
    if status in (401, 402):
        return ErrorClass.ACCOUNT
    if status == 429:
        return ErrorClass.RATE_LIMITED
    if status in _TRY_LATER_STATUSES or not 400 <= status < 500:
        return ErrorClass.PROVIDER
    return ErrorClass.REFUSED


def _of_category(error: ModelAPIError) -> ErrorClass:
    """For an error that came without a status, such as one inside an answer of 200."""
    if isinstance(error, ModelAuthenticationError):
        return ErrorClass.ACCOUNT
    if isinstance(error, ModelRateLimitError):
        return ErrorClass.RATE_LIMITED
    if isinstance(error, ModelRequestRejectedError):
        return ErrorClass.REFUSED
    return ErrorClass.PROVIDER


def _sentence(error: Exception) -> str:
    if isinstance(error, ModelHTTPError):
        said = _said(error.body)
        return f"answered {error.status_code}" + (f": {said}" if said else "")
    if isinstance(error, ModelConnectionError):
        return f"the connection failed: {_root(error)}"
    if isinstance(error, AgentRunError | UserError):
        return _said(getattr(error, "body", None)) or str(error) or type(error).__name__
    if isinstance(error, EOFError):
        return str(error)
    if isinstance(error, TimeoutError):
        return str(error) or "no answer in time"
    return f"unusable answer ({type(error).__name__}: {error})"


def _said(body: Any) -> str:
    """The provider's own words out of an error body of whatever shape."""
    if isinstance(body, dict):
        for key in ("message", "error", "detail"):
            if body.get(key):
                return _said(body[key])
        return str(body) if body else ""
    if isinstance(body, list) and body:
        return _said(body[0])
    return str(body) if body else ""


def _root(error: BaseException) -> str:
    """The innermost cause: what the network said."""
    while error.__cause__ is not None:
        error = error.__cause__
    said = str(error)
    return f"{type(error).__name__}: {said}" if said and said != "None" else type(error).__name__
