"""A standalone cluster of Spark's: a master and workers, each a process on 127.0.0.1."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import final

import psutil

from eo_listener.spark.session.installation import Installation
from tests.bridge.submitted import environment, is_open
from tests.broker.settings import free_ports
from tests.waiting import until


@final
class Standalone:
    """For a `with` block; every worker's folder keeps the logs of the drivers that it ran."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends = ExitStack()
        self._port, page = free_ports(2)
        self.url = f"spark://127.0.0.1:{self._port}"
        self._start("Master", {}, "-p", str(self._port), "--webui-port", str(page))

    def __enter__(self) -> Standalone:
        until(lambda: is_open(self._port), 60)
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def worker(self, name: str, **variables: str) -> Path:
        """Start a worker of two cores whose environment has these variables; return its folder."""
        folder = self._folder / name
        port, page = free_ports(2)
        place = ["-p", str(port), "--webui-port", str(page), "-c", "2", "-m", "3g"]
        self._start("Worker", variables, *place, "-d", str(folder), self.url)
        until(lambda: is_open(port), 60)
        return folder

    def _start(self, kind: str, variables: Mapping[str, str], *arguments: str) -> None:
        program = Installation.find().home / "bin" / "spark-class"
        words = [f"org.apache.spark.deploy.{kind.lower()}.{kind}", "-h", "127.0.0.1", *arguments]
        # Of the driver in cluster mode nothing but its environment says where it is.
        here = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1"}
        inherited = environment(**here)
        del inherited["PYTHONPATH"]  # a package is there where it was installed
        log = self._ends.enter_context((self._folder / f"{kind}.log").open("ab"))
        process = subprocess.Popen(
            [str(program), *words], env={**inherited, **variables}, stderr=log, cwd=self._folder
        )
        self._ends.callback(_end, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and what it started: a worker's drivers outlive it."""
    family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    process.wait(60)
    for one in family:
        if one.is_running():
            one.kill()
