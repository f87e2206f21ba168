"""Run the pinned Maven, fetched once into the user's cache folder: what `mvnw` calls.

The usual Maven wrapper names a download address; this one asks the same repository, through
the same Ivy, with the same check as everything else the project downloads.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final, NoReturn

from eo_listener.errors import EoListenerError, JavaError
from eo_listener.spark import java
from tests import artifacts

MAVEN: Final = artifacts.Artifact(
    organisation="org.apache.maven",
    name="apache-maven",
    revision="3.9.11",
    classifier="bin",
    extension="zip",
    transitive=False,
)
SHA256: Final = "0d7125e8c91097b36edb990ea5934e6c68b4440eef4ea96510a0f6815e7eeadb"


def main(arguments: list[str]) -> NoReturn:
    """Replace this process by Maven, or exit with one line that says why not."""
    try:
        runtime = java.find()
        compiler = runtime.executable.resolve().with_name("javac")
        if not compiler.exists():
            raise JavaError(
                f"{runtime.executable} is a Java runtime without a compiler",
                cause=f"there is no {compiler}",
                fix=f"Install a JDK {java.OLDEST}: {java.INSTALL}",
            )
        home = installed(artifacts.cache_folder() / "maven")
    except EoListenerError as error:
        print(f"mvnw: {error}", file=sys.stderr)  # noqa: T201 - a command for people
        raise SystemExit(error.exit_code) from None
    # Our own repository: a half-filled ~/.m2 makes Spark's package resolution fail.
    repository = artifacts.cache_folder() / "maven" / "repository"
    script = str(home / "bin" / "mvn")
    os.execv("/bin/sh", ["sh", script, f"-Dmaven.repo.local={repository}", *arguments])  # noqa: S606 - Maven takes over this process, its signals and its exit code


def installed(folder: Path) -> Path:
    """Return Maven's home below `folder`, unpacking it there by one rename when it is new."""
    home = folder / f"{MAVEN.name}-{MAVEN.revision}"
    if home.exists():
        return home
    (archive,) = artifacts.fetch(
        [MAVEN], folder / "download", checksums={MAVEN.filename: SHA256}, on_progress=tell
    )
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        zipfile.ZipFile(archive).extractall(scratch)
        try:
            Path(scratch, home.name).rename(home)
        except OSError:
            if not home.exists():  # else another process was faster, with the same content
                raise
    shutil.rmtree(archive.parent)
    return home


def tell(news: str) -> None:
    """Show that something is being downloaded."""
    print(f"mvnw: {news}", file=sys.stderr)  # noqa: T201 - a command for people


if __name__ == "__main__":
    main(sys.argv[1:])
