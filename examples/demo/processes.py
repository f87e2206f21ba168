"""The processes that the demo has started: find them, and end them for certain."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container

import psutil

_SPARK = ("org.apache.spark", "spark-submit", "spark-class")


def end_spark(timeout: float = 10.0) -> None:
    """End Spark's JVM, which pyspark leaves running until this Python ends."""
    jvms = _own(_is_spark)
    for jvm in jvms:
        with contextlib.suppress(psutil.NoSuchProcess):
            jvm.terminate()
    for jvm in psutil.wait_procs(jvms, timeout=timeout)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            jvm.kill()
            jvm.wait(timeout)


def break_off_spark() -> None:
    """Kill the JVM that pyspark is just starting, with the scripts that launch it.

    Nobody but pyspark may wait for that process here: it asks for the exit status in a loop, and
    a status that was fetched by others looks to it like a process that still runs.
    """
    _kill(lambda: _own(_is_spark))


def sweep(spared: Container[int], timeout: float = 5.0) -> None:
    """Kill all that this process has started, directly or not, but the `spared` ids."""
    killed = _kill(lambda: _own(lambda process: process.pid not in spared))
    psutil.wait_procs(killed, timeout=timeout)


def kill_tree(pid: int, timeout: float = 5.0) -> None:
    """Kill a process that we have started, and all below it; nothing happens when it has gone."""

    def tree() -> list[psutil.Process]:
        try:
            root = psutil.Process(pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    psutil.wait_procs(_kill(tree), timeout=timeout)


def _kill(find: Callable[[], list[psutil.Process]]) -> list[psutil.Process]:
    """Hold them all before the first is killed: its children would be nobody's, and not found."""
    held: dict[int, psutil.Process] = {}
    while new := [process for process in find() if process.pid not in held]:
        for process in new:
            held[process.pid] = process
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
    for process in held.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return list(held.values())


def _own(wanted: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if wanted(child)]


def _is_spark(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return any(mark in word for word in process.cmdline() for mark in _SPARK)
    return False
