"""What the product's fault points do when a test has armed them; never part of the wheel.

    EO_LISTENER_FAULT_POINTS=tests.attack.faults
    EO_TEST_FAULTS='{"commit.after-request": {"nth": 2, "do": "kill"}}'
    EO_TEST_FAULTS_LOG=file     (a line for every point that is reached, and what was done)

`do` is one of
    kill    SIGKILL to this process
    fell    SIGKILL to Spark's JVM and to its Python: the whole driver, but not its executors
    stop    SIGSTOP to its whole process group, so that the JVM stands still with Python
    sleep   wait for `seconds`
    raise   InjectedError

In a task, `fell` and `stop` strike the driver, once, and the task goes on as executors would.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import psutil

from eo_listener.model.fault_points import VARIABLE
from tests.attack.blows import fell, note

FAULTS = "EO_TEST_FAULTS"
LOG = "EO_TEST_FAULTS_LOG"

_counts: Counter[str] = Counter()
_lock = threading.Lock()


class InjectedError(Exception):
    """Raised at a fault point that was armed with "raise"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What happens when a point is reached for the `nth` time."""

    do: Literal["kill", "fell", "stop", "sleep", "raise"]
    nth: int = 1
    seconds: float = 0.0


def environment(faults: Mapping[str, Fault], log: Path) -> dict[str, str]:
    """What a process must have in its environment to be armed so, run in the project's folder."""
    plan = {point: asdict(fault) for point, fault in faults.items()}
    return {VARIABLE: __name__, FAULTS: json.dumps(plan), LOG: str(log)}


def fault_point(name: str) -> None:
    """Count it, and do what was planned for this time."""
    with _lock:
        _counts[name] += 1
        count = _counts[name]
    plan = json.loads(os.environ.get(FAULTS, "{}")).get(name)
    fault = Fault(**plan) if plan else None
    now = fault if fault is not None and fault.nth == count else None
    _note(f"{name} {count}" + (f" {now.do}" if now else ""))
    if now is None:
        return
    match now.do:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "fell" | "stop":
            _strike(name, now.do)
        case "sleep":
            time.sleep(now.seconds)
        case "raise":
            raise InjectedError(f"{name}, time {count}")


def _strike(name: str, do: str) -> None:
    """Fell or stop the driver; in its tasks, which count by themselves, only the first time."""
    processes = driver_processes()
    if processes[-1] != os.getpid():
        try:
            Path(f"{os.environ[LOG]}.{name}").touch(exist_ok=False)
        except FileExistsError:
            return
    if do == "fell":
        fell(processes)
    elif processes[-1] != os.getpid():
        os.killpg(os.getpgid(processes[-1]), signal.SIGSTOP)
    else:
        _stop_here()


def _stop_here() -> None:
    """Stop this process group by a signal to this thread: others would stop it past this line."""
    group = os.getpgid(0)
    for below in psutil.Process().children(recursive=True):
        with suppress(ProcessLookupError):  # it has ended
            if os.getpgid(below.pid) == group:
                os.kill(below.pid, signal.SIGSTOP)
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def driver_processes() -> tuple[int, ...]:
    """Spark's JVM, then its Python, for their tasks too; without Spark this process alone."""
    this = psutil.Process()
    for above in this.parents():
        if _is_jvm(above):
            return above.pid, above.ppid()
    return (*(below.pid for below in this.children() if _is_jvm(below)), this.pid)


def _is_jvm(process: psutil.Process) -> bool:
    """Whether it is Spark's JVM, which takes the place of the shell that has started it."""
    try:
        return "org.apache.spark.deploy.SparkSubmit" in process.cmdline()
    except psutil.Error:  # it has ended
        return False


def _note(line: str) -> None:
    note(line, os.environ.get(LOG))
