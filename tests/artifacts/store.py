"""Folders of fetched files: filled once, by one rename, and hashed before use (SHA256SUMS)."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import platformdirs
from filelock import FileLock

from tests.artifacts import ivy
from tests.artifacts.ivy import Artifact, DownloadError

_MANIFEST: Final = "SHA256SUMS"


def cache_folder() -> Path:
    """Return the folder for everything that is downloaded: `$EO_LISTENER_CACHE` or the user's."""
    named = os.environ.get("EO_LISTENER_CACHE")
    return Path(named).absolute() if named else platformdirs.user_cache_path("eo-listener")


def fetch(
    wanted: Sequence[Artifact],
    folder: Path,
    *,
    checksums: Mapping[str, str] | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> tuple[Path, ...]:
    """Return the files of `wanted`, downloading them into `folder` only when they are not there.

    They are those of `checksums`, if given: SHA-256 by name. Raises DownloadError and JavaError.
    """
    if _wrong(wanted, folder, checksums):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(_beside(folder, "lock"), timeout=ivy.LONGEST_RUN):
            wrong = _wrong(wanted, folder, checksums)  # not after another process has fetched it
            if wrong and folder.exists():
                on_progress(f"{folder} is not complete ({wrong}): fetching it again")
            if wrong:
                _download(wanted, folder, checksums, on_progress)
    return tuple(sorted(file for file in folder.iterdir() if file.name != _MANIFEST))


def _wrong(
    wanted: Sequence[Artifact], folder: Path, checksums: Mapping[str, str] | None
) -> str | None:
    """Say why a folder cannot be used as it is, after hashing each file; None when it can."""
    manifest = folder / _MANIFEST
    if not manifest.exists():
        return "it was not filled"
    try:
        lines = manifest.read_text().splitlines()
        expected = checksums or parse_sums(lines)
    except ValueError:
        return f"{_MANIFEST} is damaged"
    missing = {artifact.filename for artifact in wanted} - expected.keys()
    return _difference(expected, _hashes(folder)) or (f"missing: {missing}" if missing else None)


def _download(
    wanted: Sequence[Artifact],
    folder: Path,
    checksums: Mapping[str, str] | None,
    say: Callable[[str], None],
) -> None:
    work, cache, old = (_beside(folder, kind) for kind in ("new", "ivy", "old"))
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        ivy.run(wanted, work, cache, folder.with_name(f"{folder.name}.log"), say)
        files = _hashes(work)
        names = {artifact.filename: files.get(artifact.filename, "") for artifact in wanted}
        if wrong := _difference(checksums or {**files, **names}, files):
            shutil.rmtree(cache)
            raise DownloadError(
                f"What was downloaded for {wanted[0]} is not what was expected",
                cause=f"{wrong}; a mirror or proxy may serve other files",
                fix="Try again",
            )
        (work / _MANIFEST).write_text("".join(f"{files[name]}  {name}\n" for name in files))
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    shutil.rmtree(cache, ignore_errors=True)  # else everything would be kept twice


def parse_sums(lines: Iterable[str]) -> dict[str, str]:
    """Return file name to SHA-256, as sha256sum has them line by line."""
    pairs = (line.split("  ", 1) for line in lines)
    return {name: value for value, name in pairs}


def _hashes(folder: Path) -> dict[str, str]:
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.iterdir())
        if file.name != _MANIFEST
    }


def _difference(expected: Mapping[str, str], files: Mapping[str, str]) -> str | None:
    if missing := sorted(expected.keys() - files.keys()):
        return f"missing: {', '.join(missing)}"
    if changed := sorted(name for name in expected if expected[name] != files[name]):
        return f"wrong SHA-256: {', '.join(changed)}"
    extra = sorted(files.keys() - expected.keys())
    return f"not expected: {', '.join(extra)}" if extra else None


def _beside(folder: Path, kind: str) -> Path:
    return folder.with_name(f".{folder.name}.{kind}")
