"""Folders of fetched files: filled once, by one rename, and hashed before every use.

The file `SHA256SUMS` in such a folder (the format of sha256sum) names every other file in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import platformdirs
from filelock import FileLock, Timeout

from tests.artifacts import ivy
from tests.artifacts.errors import DownloadError
from tests.artifacts.ivy import Artifact

MANIFEST: Final = "SHA256SUMS"
CACHE_VARIABLE: Final = "EO_LISTENER_CACHE"


class _MismatchError(Exception):
    """What a folder holds is not what it should hold."""


def cache_folder() -> Path:
    """Return the folder for everything that is downloaded: `$EO_LISTENER_CACHE` or the user's."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named).absolute() if named else platformdirs.user_cache_path("eo-listener")


def fetch(
    wanted: Sequence[Artifact],
    folder: Path,
    *,
    checksums: Mapping[str, str] | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> tuple[Path, ...]:
    """Return the files of `wanted`, downloading them into `folder` only when they are not there.

    `checksums` maps every file name to its SHA-256; the files must then be exactly these.
    Without it Ivy's own check and the manifest written at download hold. A folder that is
    damaged is said to be so and fetched again. Processes that want the same folder take turns.

    Raises DownloadError, and JavaError when something must be downloaded and there is no Java.
    """
    try:
        files = _usable(wanted, folder, checksums, lambda _: None)
        if files is None:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _turn(_beside(folder, "lock"), on_progress):
                files = _usable(wanted, folder, checksums, on_progress)
                if files is None:
                    _download(wanted, folder, checksums, on_progress)
                    files = verify(folder, checksums)
    except OSError as error:
        raise DownloadError(
            f"{folder} cannot be filled",
            cause=str(error),
            fix=f"Make room and give yourself the right to write, or let {CACHE_VARIABLE} name"
            " another folder",
        ) from error
    return files


def verify(folder: Path, checksums: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Return the files of a filled folder after hashing each of them (about 0.1 s for a broker).

    Raises DownloadError when a file is missing, changed or not of this folder.
    """
    try:
        expected = checksums or _parse_manifest((folder / MANIFEST).read_text())
        _compare(expected, _hashes(folder))
    except (_MismatchError, FileNotFoundError) as error:
        raise DownloadError(
            f"{folder} is not complete", cause=str(error), fix=f"rm -r {folder}, then try again"
        ) from error
    return tuple(folder / name for name in sorted(expected))


def _usable(
    wanted: Sequence[Artifact],
    folder: Path,
    checksums: Mapping[str, str] | None,
    say: Callable[[str], None],
) -> tuple[Path, ...] | None:
    if not (folder / MANIFEST).exists():
        return None
    try:
        files = verify(folder, checksums)
    except DownloadError as error:
        say(f"{error.problem} ({error.cause}): fetching it again")
        return None
    missing = {artifact.filename for artifact in wanted} - {file.name for file in files}
    return None if missing else files


def _download(
    wanted: Sequence[Artifact],
    folder: Path,
    checksums: Mapping[str, str] | None,
    say: Callable[[str], None],
) -> None:
    work, cache = _beside(folder, "new"), _beside(folder, "ivy")
    resumed = cache.exists()  # a run that was cut short left what it had
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        ivy.run(wanted, work, cache=cache, log=folder.with_name(f"{folder.name}.log"), say=say)
    except BaseException as error:
        shutil.rmtree(work, ignore_errors=True)
        if isinstance(error, ivy.NoSuchArtifactError):  # there is nothing to continue with
            shutil.rmtree(cache, ignore_errors=True)
        raise
    try:
        found = _hashes(work)
        _compare(checksums or {artifact.filename: None for artifact in wanted}, found)
    except _MismatchError as error:
        shutil.rmtree(cache, ignore_errors=True)
        if resumed:
            say(f"what an earlier download left is damaged ({error}): starting afresh")
            return _download(wanted, folder, checksums, say)
        raise DownloadError(
            f"What was downloaded for {wanted[0]} is not what was expected",
            cause=f"{error}; a mirror or proxy may serve other files",
            fix=f"Inspect {work}, then try again",
        ) from error
    (work / MANIFEST).write_text(_render_manifest(found))
    old = _beside(folder, "old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    work.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    shutil.rmtree(cache, ignore_errors=True)  # else everything would be kept twice
    return None


def _hashes(folder: Path) -> dict[str, str]:
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.iterdir())
        if file.name != MANIFEST
    }


def _compare(expected: Mapping[str, str | None], found: Mapping[str, str]) -> None:
    """Raise unless all files are there; with hashes they must be these and no other."""
    if missing := sorted(expected.keys() - found.keys()):
        raise _MismatchError(f"missing: {', '.join(missing)}")
    hashed = {name: value for name, value in expected.items() if value is not None}
    if changed := sorted(name for name in hashed if hashed[name] != found[name]):
        raise _MismatchError(f"wrong SHA-256: {', '.join(changed)}")
    if hashed and (extra := sorted(found.keys() - expected.keys())):
        raise _MismatchError(f"not expected: {', '.join(extra)}")


def _render_manifest(hashes: Mapping[str, str]) -> str:
    return "".join(f"{value}  {name}\n" for name, value in sorted(hashes.items()))


def _parse_manifest(text: str) -> dict[str, str]:
    pairs = (line.split("  ", 1) for line in text.splitlines() if line)
    try:
        return {name: value for value, name in pairs}
    except ValueError as error:
        raise _MismatchError(f"{MANIFEST} is damaged") from error


def _beside(folder: Path, kind: str) -> Path:
    return folder.with_name(f".{folder.name}.{kind}")


@contextlib.contextmanager
def _turn(file: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock that the system releases when the process dies; waits for it, up to a limit."""
    lock = FileLock(file)
    try:
        held = lock.acquire(blocking=False)
    except Timeout:
        say("another process is fetching the same files: waiting for it")
        try:
            held = lock.acquire(timeout=ivy.LONGEST_RUN, poll_interval=0.2)
        except Timeout:
            raise DownloadError(
                f"Another process has held {file} for {ivy.LONGEST_RUN:.0f} s",
                cause="its download may hang",
                fix=f"End that process (fuser {file} names it), then try again",
            ) from None
    with held:
        yield
