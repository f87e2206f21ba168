"""Killed, or held and resumed, at each of its crash points: what a committer leaves behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.attack.conftest import Attacked
from tests.attack.driver import Job
from tests.attack.durable import Durable
from tests.attack.faults import Fault, environment
from tests.attack.offsets_topic import Fate, audit
from tests.attack.test_zombies import Stage, offer, stage
from tests.attack.zombies import Puppet
from tests.topics import unique

__all__ = ["stage"]  # a fixture
pytestmark = pytest.mark.kafka

LOOKING = ["snapshot.before-request", "snapshot.answered"]
COMMITTING = ["commit.before-request", "commit.after-request", "commit.answered"]
SPARK = ["listener.progress", "router.before-route", *COMMITTING]
TRANSACTION = ["transaction.begun", "transaction.offsets-sent", "transaction.committed"]
CAMPAIGN = pytest.mark.campaign
CLOSING = ["close.before-drain", "close.before-flush", "close.after-flush"]


def first_and_second(points: list[str]) -> list[object]:
    """Each point at its first occurrence, and in the campaign at its second too."""
    second = [pytest.param(point, 2, marks=CAMPAIGN) for point in points]
    return [*((point, 1) for point in points), *second]


def offer_until(driver: Puppet, done: Callable[[], bool]) -> None:
    """Offer 1, 2, 3, ... until the fault has struck; far less than what a successor will."""
    for offset in range(1, 40):
        if done():
            return
        with suppress(BrokenPipeError):  # it was killed meanwhile
            driver.say(f"offer {offset}")
        time.sleep(0.4)
    pytest.fail(f"the point was not reached: {driver.lines}")


@pytest.mark.parametrize(("point", "nth"), first_and_second([*LOOKING, *COMMITTING]))
def test_killed_there_a_successor_goes_on(
    stage: Stage, tmp_path: Path, point: str, nth: int
) -> None:
    """SIGKILL at that point: nothing wrong is left in the group, and the next driver goes on."""
    faults = environment({point: Fault(do="kill", nth=nth)}, tmp_path / "log")
    victim = stage.driver("a", environment=faults, snapshot_max_age=0.25)
    offer_until(victim, lambda: victim.code() is not None)
    assert victim.code() == -signal.SIGKILL
    assert (tmp_path / "log").read_text().splitlines()[-1] == f"{point} {nth} kill"
    successor = stage.driver("b")
    offer(successor, 50)
    stage.await_held(50)
    assert stage.went_back() == []


@pytest.mark.parametrize(("point", "nth"), first_and_second([*LOOKING, *COMMITTING]))
def test_held_there_and_resumed_when_a_successor_has_moved_on(
    stage: Stage, tmp_path: Path, point: str, nth: int
) -> None:
    """SIGSTOP, a successor, SIGCONT: in simple mode it takes the group back one step at most."""
    faults = environment({point: Fault(do="stop", nth=nth)}, tmp_path / "log")
    # Already here: the zombie is not held for long.
    successor = stage.driver("b", snapshot_max_age=0.25)
    zombie = stage.driver("a", environment=faults, snapshot_max_age=0.25)
    offer_until(zombie, zombie.frozen)
    offer(successor, 50)
    zombie.thaw()
    zombie.say("offer 45")
    ending = zombie.await_line(("CommitRefused 45", "Committed 45"))
    zombie.say("flush")
    zombie.await_line("flushed")
    time.sleep(0.3)
    offer(successor, 60)
    back = stage.went_back()
    assert [limit for _, limit in back] in ([], [50])
    if point in ("snapshot.before-request", "commit.answered"):
        assert back == []
    # One that stood still for long, or whose connection broke, fails and looks before it goes on.
    failed = any(line.startswith("CommitFailed") for line in zombie.lines)
    if point == "commit.before-request" and not failed:
        assert back != [], zombie.lines  # else this test would not reach what it is about
    if back:
        successor.await_line("ForeignCommit")
    else:
        assert ending.startswith("CommitRefused")
    stage.await_held(60)


@pytest.mark.parametrize("point", TRANSACTION)
def test_killed_in_a_transaction_a_successor_goes_on(
    stage: Stage, tmp_path: Path, point: str
) -> None:
    """SIGKILL in a transaction: it is aborted, or was whole; the successor does not wait for it."""
    faults = environment({point: Fault(do="kill", nth=2)}, tmp_path / "log")
    victim = stage.driver("a", environment=faults, mode="transactional")
    offer_until(victim, lambda: victim.code() is not None)
    assert victim.code() == -signal.SIGKILL
    successor = stage.driver("b", mode="transactional")
    offer(successor, 50)
    stage.await_held(50)
    assert stage.went_back() == []
    fates = [one.fate for one in stage.attacked.offsets.commits(stage.group)]
    lost = 0 if point != "transaction.offsets-sent" else 1
    assert fates.count(Fate.ABORTED) == lost
    assert Fate.PENDING not in fates


FENCING = [
    ("member", "commit.before-request", 1),
    ("member", "commit.answered", 1),
    ("transactional", "commit.before-request", 1),
    ("transactional", "transaction.offsets-sent", 2),
]
FENCING_TOO = [
    *((mode, point, 2) for mode in ("member", "transactional") for point in LOOKING),
    *((mode, "commit.before-request", 2) for mode in ("member", "transactional")),
    ("transactional", "commit.answered", 1),
    *(("transactional", point, nth) for point in TRANSACTION for nth in (1, 2)),
]


@pytest.mark.parametrize(
    ("mode", "point", "nth"),
    [*FENCING, *(pytest.param(*one, marks=CAMPAIGN) for one in FENCING_TOO if one not in FENCING)],
)
def test_held_there_in_a_mode_that_fences(
    stage: Stage, tmp_path: Path, mode: str, point: str, nth: int
) -> None:
    """The broker refuses all that the zombie does; it says so once, and the successor goes on."""
    faults = environment({point: Fault(do="stop", nth=nth)}, tmp_path / "log")
    zombie = stage.driver("a", environment=faults, snapshot_max_age=0.25, mode=mode)
    offer_until(zombie, zombie.frozen)
    successor = stage.driver("b", snapshot_max_age=0.25, mode=mode)
    offer(successor, 50)
    zombie.thaw()
    zombie.say("offer 45")
    zombie.say("flush")
    zombie.await_line("flushed")
    offer(successor, 60)
    zombie.say("offer 70")
    zombie.await_line("CommitterFenced")
    zombie.say("offer 71")
    zombie.say("close")
    zombie.await_line("closed")
    stage.await_held(60)
    assert stage.went_back() == []
    assert len([line for line in zombie.lines if line.startswith("CommitterFenced")]) == 1
    offer(successor, 61)
    assert not [line for line in successor.lines if line.startswith("CommitterFenced")]


# Two JVMs each; tests/listener/test_groups.py has the state after such a crash.
@pytest.mark.campaign
@pytest.mark.spark
@pytest.mark.parametrize(
    ("point", "nth"),
    [*((point, nth) for point in SPARK for nth in (1, 2, 4)), *((point, 1) for point in CLOSING)],
)
def test_a_driver_killed_there_is_right_after_a_restart(
    attacked: Attacked, tmp_path: Path, point: str, nth: int
) -> None:
    """10 s after a restart the group is right; no commit was ahead of the checkpoint, or back."""
    topic, group = attacked.topics.create(partitions=3), unique("crash")
    attacked.topics.fill(topic, 300)
    job = Job(
        servers=attacked.direct,
        topic=topic,
        group=group,
        checkpoint=str(tmp_path / "c"),
        batch=1000 if nth == 1 else 50,  # all at once: the restart finds nothing new to read
    )
    faults = environment({point: Fault(do="kill", nth=nth)}, tmp_path / "log")
    with Puppet("tests.attack.driver", job.text(), environment=faults) as victim:
        victim.await_line("ready", 90)
        with suppress(BrokenPipeError):  # it was killed meanwhile
            victim.say("drain")
            victim.say("stop")
        assert victim.wait(90) == -signal.SIGKILL
    assert (tmp_path / "log").read_text().splitlines()[-1] == f"{point} {nth} kill"
    with Puppet("tests.attack.driver", job.text()) as restarted:
        restarted.await_line("ready", 90)
        if nth > 1:
            restarted.say("drain")
            restarted.await_line("drained", 60)
        attacked.await_held(group, 300, 10.0)
        restarted.say("stop")
        restarted.await_line("stopped")
        assert restarted.end() == 0
    assert audit(attacked.offsets.commits(group), Durable(tmp_path / "c").bound) == ()
