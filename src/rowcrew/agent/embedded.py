"""The embedded model: llama.cpp as an OpenAI-compatible server on loopback in this process. It asks nothing.

Discipline: `open` and `close` belong to one owner; the server's own threads touch nothing of ours. It takes a
key that is made up for each run, so that other users of the machine cannot ask it.
"""

import asyncio
import importlib
import os
import secrets
from pathlib import Path
from typing import Any, Self

from rowcrew.agent import weights
from rowcrew.errors import InvalidRequest

MAX_CONCURRENCY = 2
CONTEXT_TOKENS = 4096  # for one request, prompt and answer together
MAX_ANSWER_TOKENS = 512
_MAGIC = b"GGUF"
_SILENT = -1
_MAX_THREADS = 8  # a small model is not written faster by more


def find_file(name: str, home: Path) -> Path:
    """The weights that `local` or `local:<file.gguf>` means. Raises InvalidRequest."""
    _, _, named = name.partition(":")
    if not named:
        found = weights.find(home)
        if found is None:
            raise InvalidRequest(
                "the embedded model's weights are not here: run `rowcrew models pull`",
                hint=f"they are kept at {weights.place(home)}",
            )
        return found
    path = Path(named).expanduser()
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise InvalidRequest(
            f"the model file {str(path)!r} cannot be read: {error.strerror}", hint="name a .gguf file"
        ) from error
    if magic != _MAGIC:
        raise InvalidRequest(f"the model file {str(path)!r} is no GGUF file", hint="name a .gguf file")
    return path.resolve()


class EmbeddedServer:
    """A loaded model that listens. `url` is for a client, with `key`."""

    def __init__(self, server: Any, *, key: str, file: Path) -> None:
        self._server = server
        self.url = f"{server.listening_address}/v1"
        self.key = key
        self.file = file

    @classmethod
    async def open(cls, file: Path) -> Self:
        """Load the weights and listen. Raises InvalidRequest when it cannot be done here."""
        library = _library()
        key = secrets.token_urlsafe(24)
        # A thread of its own: loading takes a moment, and the loop may hold other jobs.
        server = await asyncio.to_thread(_start, library, file, key)
        return cls(server, key=key, file=file)

    async def close(self) -> None:
        """Stop listening and give the memory back. Requests under way are broken off."""
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(_drop, [server])


def _library() -> Any:
    try:
        return importlib.import_module("xllamacpp")
    except ImportError as error:
        raise InvalidRequest(
            f"the embedded model needs a package that is not installed ({error})",
            hint="pip install 'rowcrew[local]'",
        ) from error


def _start(library: Any, file: Path, key: str) -> Any:
    # One processor stays free: llama.cpp's threads wait for each other at every step, so that one held up by
    # other work slows all (measured on two busy cores: ten rows in 7 s with one thread, in 21 s with two).
    threads = max(1, min(_processors() - 1, _MAX_THREADS))
    params = library.CommonParams()
    params.model.path = str(file)
    params.model_alias = {file.stem}
    params.api_keys = [key]
    params.port = 0
    params.n_parallel = MAX_CONCURRENCY
    params.n_ctx = CONTEXT_TOKENS * MAX_CONCURRENCY
    params.n_predict = MAX_ANSWER_TOKENS
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.sampling.temp = 0.0
    params.cache_ram_mib = 0
    params.fit_params = False
    params.warmup = False
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = _SILENT
    try:
        return library.Server(params)
    except Exception as error:  # the library raises bare RuntimeErrors
        raise InvalidRequest(
            f"the model file {str(file)!r} cannot be loaded: {error}", hint="name another .gguf file"
        ) from error


def _processors() -> int:
    """How many this process may use, which may be fewer than there are."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _drop(held: list[Any]) -> None:
    """Let go of the last reference here, off the loop: ending the server waits for its threads."""
    held.clear()
