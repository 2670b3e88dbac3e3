"""What goes into a cell as text: JSON and process names, for any reader. It knows no table."""

import json
import math
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from rowcrew.domain.json_text import WrittenFloat, clean_text, compact
from rowcrew.processes import ProcessIdentity
from rowcrew.store.rows import dump


def plain_json(value: object) -> str:
    """Compact JSON of what a model may have said: NaN and infinities, which JSON does not have, as null."""
    try:
        text = compact(value)
    except ValueError:
        text = compact(_finite(value))
    return clean_text(text)


def _finite(value: Any) -> Any:
    match value:
        case WrittenFloat():
            return value
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_finite(inner) for inner in value]
        case _:
            return value


@lru_cache
def process_to_json(process: ProcessIdentity) -> str:
    """Equal text for the same process, so that a query can compare owners."""
    return dump(asdict(process))


def process_from_json(text: str | None) -> ProcessIdentity | None:
    return None if text is None else ProcessIdentity(**json.loads(text))
