"""Finds a Java runtime, or explains why there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from eo_listener.errors import JavaError

OLDEST = 17
INSTALL = "sudo apt-get install openjdk-17-jdk-headless (or: brew install openjdk@17)"

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime: its executable and its feature version, such as 17."""

    executable: Path
    feature: int


def find(oldest: int = OLDEST, newest: int | None = None, *, user: str = "this") -> Java:
    """Return `$JAVA_HOME/bin/java`, or the `java` on the PATH.

    Raises JavaError if Java is missing, does not run, or has a feature version below `oldest` or
    above `newest`. `user` names the software that needs Java, such as `"Spark 4.0.0"`.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        origin, path = "JAVA_HOME", shutil.which("java", path=str(Path(home, "bin")))
    else:
        origin, path = "PATH", shutil.which("java")
    if path is None:
        raise JavaError(
            "Java was not found",
            cause=f"JAVA_HOME is {home}, which has no bin/java" if home else "the PATH has no java",
            fix=f"Install a JDK {OLDEST}: {INSTALL}; or point JAVA_HOME at one",
        )
    feature = _feature(Path(path))
    if feature < oldest or (newest is not None and feature > newest):
        versions = f"Java {oldest} or later" if newest is None else f"Java {oldest} to {newest}"
        raise JavaError(
            f"{path} is Java {feature}, but {user} needs {versions}",
            cause=f"{origin} names it",
            fix=f"Install a JDK {OLDEST}: {INSTALL}; or point JAVA_HOME at one",
        )
    return Java(executable=Path(path), feature=feature)


def _feature(executable: Path) -> int:
    try:
        answer = subprocess.run(
            [str(executable), "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaError(
            f"{executable} -version failed to run",
            cause=str(error),
            fix="Point JAVA_HOME at a working JDK",
        ) from error
    match = _VERSION.search(answer.stderr) or _VERSION.search(answer.stdout)
    if match is None:
        raise JavaError(
            f"{executable} -version printed no version",
            cause="it may not be a Java runtime",
            fix="Point JAVA_HOME at a working JDK",
        )
    return int(match.group(1))
