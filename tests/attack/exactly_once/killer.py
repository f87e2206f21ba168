"""Kills drivers at random moments, from outside, and says where each of them was."""

from __future__ import annotations

import os
import random
import signal
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.attack.exactly_once.lives import END, POINTS, TASK, Lives
from tests.attack.zombies import Puppet

ENDED = ("BatchApplied", "BatchReplayed")
_GUESS = 10.0  # seconds for the first batch of a life, until one was seen
_MOST = 2.2  # batches of a life
_AFTER = 0.05  # seconds after a fault point


@dataclass
class Killer:
    """Kills the whole driver, its JVM or its Python: at any moment, or just after a fault point."""

    lives: Lives
    chance: random.Random
    kills: int = 0
    felled: Counter[str] = field(default_factory=Counter)  # by what was killed
    places: Counter[str] = field(default_factory=Counter)  # by the last fault point that was passed
    ended: Counter[str] = field(default_factory=Counter)  # events of batches, of all lives
    begun: int = 0  # how often Spark has called foreachBatch
    _seconds: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})

    def life(self) -> None:
        """Start a driver, and kill it at a moment between its start and its third batch."""
        batches, part = divmod(self.chance.uniform(0, _MOST), 1)
        what = self.chance.choice(("all", "all", "JVM", "Python"))
        log = f"kill-{self.kills}"
        with self.lives.run(log=log) as driver:
            driver.await_line("started", END)
            if self.kills % 2:
                self._await_point(driver, log, int(batches))
                time.sleep(self.chance.uniform(0, _AFTER))
            else:
                self._await(driver, int(batches), part)
            passed = self._passed(log)
            _kill(driver, what)
        self.kills += 1
        self.felled[what] += 1
        self.places[passed[-1].split()[0] if passed else "started"] += 1
        self._note(driver, log)

    def finish(self) -> None:
        log = "finish"
        with self.lives.run(log=log) as driver:
            driver.await_line(("drained", "failed"), 600)
            assert driver.end() == 0, driver.errors[-20:]
        assert driver.lines[-1] == "drained", driver.lines
        self._note(driver, log)

    def _await(self, driver: Puppet, batches: int, part: float) -> None:
        """Return when so many batches and a part of the next one have passed, or all of that."""
        begun, end, seen = time.monotonic(), time.monotonic() + END, 0
        while seen <= batches:
            now = time.monotonic()
            assert driver.code() is None, (driver.lines, driver.errors[-20:])
            assert now < end, (driver.lines, driver.errors[-20:])
            if _batches(driver) > seen:
                self._seconds[seen == 0].append(now - begun)
                begun, seen = now, seen + 1
            elif seen == batches and now - begun > part * self._expected(first=seen == 0):
                return
            time.sleep(0.01)

    def _await_point(self, driver: Puppet, log: str, batches: int) -> None:
        """Return when the point whose turn it is was passed in that batch."""
        points = [one for one in POINTS if one not in TASK and self.lives.reaches(one)]
        wanted = f"{points[self.kills // 2 % len(points)]} {batches + 1}"
        end = time.monotonic() + END
        while wanted not in self._passed(log):
            assert driver.code() is None, (driver.lines, driver.errors[-20:])
            assert time.monotonic() < end, (wanted, driver.lines, driver.errors[-20:])
            time.sleep(0.005)

    def _expected(self, *, first: bool) -> float:
        return statistics.median(self._seconds[first] or [_GUESS if first else _GUESS / 3])

    def _passed(self, log: str) -> list[str]:
        path = Path(self.lives.folder, log)
        return path.read_text().splitlines() if path.exists() else []

    def _note(self, driver: Puppet, log: str) -> None:
        self.ended.update(line for line in driver.lines if line in ENDED)
        self.begun += sum(line.startswith("spark.called ") for line in self._passed(log))


def _batches(driver: Puppet) -> int:
    return sum(line in ENDED for line in driver.lines)


def _kill(driver: Puppet, what: str) -> None:
    """SIGKILL; what is left of the driver ends by itself, or is killed a little later."""
    family = driver.family()
    if what == "all":
        os.killpg(driver.pid, signal.SIGKILL)
    elif what == "Python":
        os.kill(driver.pid, signal.SIGKILL)
    else:
        for java in _jvms(family):
            java.kill()
    _, alive = psutil.wait_procs(family, timeout=20)
    for one in alive:
        one.kill()


def _jvms(family: Sequence[psutil.Process]) -> list[psutil.Process]:
    found = [one for one in family if one.name() == "java"]
    assert found, family
    return found
