"""An archive of the classes that a Spark driver loads: with it a JVM starts in half the time.

Java calls it class data sharing. It is made once for each Spark and Java, by a small session, and
lies in the folder of downloads. A JVM that cannot use it says nothing and starts as always.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame

from eo_listener import java
from eo_listener.artifacts import cache_folder
from tests.spark_session import new_session, session_conf, submit_environment

OPTIONS = "spark.driver.extraJavaOptions"
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def conf() -> dict[str, str]:
    """The options of a JVM that uses the archive; it is made now if it is missing."""
    archive = _path()
    if not archive.exists():
        _make(archive)
    return {OPTIONS: f"{session_conf()[OPTIONS]} -XX:SharedArchiveFile={archive} {_QUIET}"}


def _path() -> Path:
    found = java.find().executable.resolve()
    known = f"{found} {found.stat().st_mtime_ns} {Path(pyspark.__file__).parent}"
    name = f"{pyspark.__version__}-{hashlib.sha256(known.encode()).hexdigest()[:12]}.jsa"
    return cache_folder() / "tests" / name


def _make(archive: Path) -> None:
    """Have a process of its own make it, and put it there by one rename."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder, "made.jsa")
        subprocess.run(
            [sys.executable, "-m", "tests.class_archive", str(made)],
            cwd=Path(__file__).parents[1],
            env=submit_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=200,
        )
        made.rename(archive)


def _look(frame: DataFrame, _: int) -> None:
    frame.limit(5).collect()


def main(made: Path) -> None:
    """Run a session that loads what a driver needs; the archive is written when its JVM ends."""
    options = f"{session_conf()[OPTIONS]} -XX:ArchiveClassesAtExit={made} {_QUIET}"
    spark = new_session({OPTIONS: options})
    checkpoint = tempfile.mkdtemp()
    query = (
        spark.readStream.format("rate")
        .load()
        .writeStream.foreachBatch(_look)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.proc
    spark.stop()
    jvm.stdin.close()
    jvm.wait(150)
    shutil.rmtree(checkpoint)
    assert made.stat().st_size > 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
