"""An archive of the classes that a Spark driver loads: with it a JVM starts in half the time.

Java calls it class data sharing. It is made once for each Spark and Java, by the session that
brings the connector (`python -m tests.spark_session`), and lies in the folder of downloads. A JVM
that cannot use it says nothing and starts as always.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from eo_listener.spark import java
from tests.artifacts import cache_folder

OPTIONS = "spark.driver.defaultJavaOptions"  # stands beside a program's own extraJavaOptions
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def conf() -> dict[str, str]:
    """The setting of a driver that uses the archive; empty while there is none."""
    archive = _path()
    return {OPTIONS: f"-XX:SharedArchiveFile={archive} {_QUIET}"} if archive.exists() else {}


@contextmanager
def making() -> Iterator[dict[str, str]]:
    """The setting of a driver that makes the archive when its JVM ends, which must end here."""
    archive = _path()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder, "made.jsa")
        yield {OPTIONS: f"-XX:ArchiveClassesAtExit={made} {_QUIET}"}
        made.replace(archive)


def _path() -> Path:
    found = java.find().executable.resolve()
    known = f"{found} {found.stat().st_mtime_ns} {Path(pyspark.__file__).parent}"
    name = f"{pyspark.__version__}-{hashlib.sha256(known.encode()).hexdigest()[:12]}.jsa"
    return cache_folder() / "tests" / name
