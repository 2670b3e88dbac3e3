"""Answers of OpenAI's two interfaces, checked once on their way in. It asks nothing.

The library builds answers unchecked and slowly, and pydantic-ai takes those of Chat Completions apart again
to check them. An answer that is wholly as its interface says is checked by pydantic in one go; any other is
built by the library as always, for pydantic-ai to mend or refuse.
"""

from typing import Any

from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from pydantic import ValidationError


class CheckedCompletion(ChatCompletion):
    """An answer of Chat Completions that is wholly as the interface says."""


def read_completion(data: object) -> Any:
    """The JSON of an answer of Chat Completions."""
    try:
        return CheckedCompletion.model_validate(data)
    except ValidationError:
        return ChatCompletion.construct(**data) if isinstance(data, dict) else data


def read_response(data: object) -> Any:
    """The JSON of an answer of the Responses interface."""
    if not isinstance(data, dict):
        return data
    # They are the request's, and building them takes longer than all the rest.
    data["tools"] = []
    usage = data.get("usage")
    if isinstance(usage, dict) and isinstance(details := usage.get("input_tokens_details"), dict):
        # Newer than most servers; without it their answers would not be as the interface says.
        details.setdefault("cache_write_tokens", 0)
    try:
        return Response.model_validate(data)
    except ValidationError:
        return Response.construct(**data)
