"""Names of jobs and threads. It knows how they look, not where they are kept."""

import uuid


def new_id() -> str:
    """A random UUID as text: what jobs and threads are named by."""
    return str(uuid.uuid4())


def short(identifier: str) -> str:
    """The first eight characters, as shown to people and used in file names."""
    return identifier[:8]
