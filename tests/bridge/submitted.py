"""Drivers that spark-submit starts, with the listener by configuration alone."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import final

import psutil

from eo_listener.spark import shim
from eo_listener.spark.session.configure import HADOOP, OUR_IVY_SETTINGS
from eo_listener.spark.session.installation import Installation
from tests.spark_session import session_conf
from tests.waiting import until

ROOT = Path(__file__).parents[2]
JOB = Path(__file__).with_name("job.py")
LISTENER = {
    "spark.sql.streaming.streamingQueryListeners": "io.github.eolistener.OffsetCommitListener"
}
NOTHING: Mapping[str, str] = MappingProxyType({})


def is_open(port: int) -> bool:
    """Whether something listens there."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def settings(conf: Mapping[str, str] = NOTHING, *, connector: bool = True) -> dict[str, str]:
    """What a driver is told: the shim, the listener, and all they need."""
    spark = Installation.find()
    told = {**session_conf(), "spark.log.level": "WARN", **LISTENER, **conf}
    told["spark.jars"] = ",".join(filter(None, [str(shim.jar()), told.get("spark.jars", "")]))
    if connector and not spark.has_connector:
        excludes = [*HADOOP, told.get("spark.jars.excludes", "")]
        told["spark.jars.packages"] = spark.connector
        told["spark.jars.excludes"] = ",".join(filter(None, excludes))
        told["spark.jars.ivySettings"] = str(OUR_IVY_SETTINGS)
    return told


def command(
    program: str, *, conf: Mapping[str, str] = NOTHING, connector: bool = True
) -> list[str]:
    """The command of one of Spark's programs with these settings."""
    words = [str(Installation.find().home / "bin" / program)]
    for key, value in settings(conf, connector=connector).items():
        words += ["--conf", f"{key}={value}"]
    return words


def environment(**more: str) -> dict[str, str]:
    """An environment without what other tests have set, whose Python is this one."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_"))}
    return {**clean, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), **more}


def run(
    words: list[str], folder: Path, text: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, in a folder, and see that it ends well."""
    done = subprocess.run(
        words,
        input=text,
        capture_output=True,
        text=True,
        timeout=200,
        cwd=folder,
        env=environment(**more),
        check=False,
    )
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-5000:])
    return done


@final
class Driver:
    """A job under spark-submit, told what to do through a named pipe; for a `with` block."""

    def __init__(self, folder: Path, *, conf: Mapping[str, str] = NOTHING, **more: str) -> None:
        self._pipe = folder / "commands"
        self._log = folder / "log"
        self._answers: list[str] = []
        os.mkfifo(self._pipe)
        words = [*command("spark-submit", conf=conf), str(JOB), str(self._pipe)]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env=environment(**more),
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._family: set[psutil.Process] = set()

    def __enter__(self) -> Driver:
        until(lambda: "READY" in self._answers or self.process.poll() is not None, 90, "no job")
        assert self.process.poll() is None, self.log
        self._commands = self._pipe.open("w")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.family()
        with contextlib.suppress(BrokenPipeError):
            self._commands.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        for one in self._family:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self.process.wait(10)
        self._reader.join(10)

    def tell(self, do: str, *, seconds: float = 60, **what: object) -> None:
        """Have the job do something, and wait until it is done."""
        done = len(self._answers)
        print(json.dumps({"do": do, **what}), file=self._commands, flush=True)
        until(
            lambda: f"DONE {do}" in self._answers[done:] or self.process.poll() is not None,
            seconds,
            f"{do} is not done: {self.log[-3000:]}",
        )
        assert f"DONE {do}" in self._answers[done:], self.log[-3000:]

    @property
    def log(self) -> str:
        """What the driver has logged so far."""
        return self._log.read_text(errors="replace")

    def family(self) -> set[psutil.Process]:
        """All processes that it has or had."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._family |= set(psutil.Process(self.process.pid).children(recursive=True))
        return self._family

    def bridge(self) -> psutil.Process:
        """The bridge that runs now."""
        found: list[psutil.Process] = []

        def started() -> bool:
            found[:] = [one for one in self.family() if is_bridge(one)]
            return bool(found)

        until(started, what=f"no bridge: {self.log[-3000:]}")
        (one,) = found
        return one

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._answers.append(line.rstrip("\n"))


def is_bridge(process: psutil.Process) -> bool:
    """Whether a process is a bridge that lives."""
    try:
        alive = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        return alive and "eo_listener.bridge" in process.cmdline()
    except psutil.NoSuchProcess:
        return False
