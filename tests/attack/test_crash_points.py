"""Killed, or held and resumed, at each of its crash points: what a committer leaves behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.attack.conftest import Attacked
from tests.attack.driver import Job
from tests.attack.durable import Durable
from tests.attack.faults import Fault, environment
from tests.attack.offsets_topic import Fate, audit
from tests.attack.test_zombies import Stage, offer
from tests.attack.zombies import Puppet
from tests.topics import unique

pytestmark = pytest.mark.kafka

LOOKING = ["snapshot.before-request", "snapshot.answered"]
COMMITTING = ["commit.before-request", "commit.after-request", "commit.answered"]
SPARK = ["listener.progress", "router.before-route", *COMMITTING]
TRANSACTION = ["transaction.begun", "transaction.offsets-sent", "transaction.committed"]
CLOSING = ["close.before-drain", "close.before-flush", "close.after-flush"]


@pytest.fixture
def stage(attacked: Attacked) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(attacked, stack)


def first_and_second(points: list[str]) -> list[object]:
    """Each point at its first occurrence, and in the campaign at its second too."""
    campaign = pytest.mark.campaign
    return [(point, 1) for point in points] + [
        pytest.param(point, 2, marks=campaign) for point in points
    ]


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
    assert stage.holds(50)
    assert stage.went_back() == []


@pytest.mark.parametrize(("point", "nth"), first_and_second([*LOOKING, *COMMITTING]))
def test_held_there_and_resumed_when_a_successor_has_moved_on(
    stage: Stage, tmp_path: Path, point: str, nth: int
) -> None:
    """SIGSTOP at that point, a successor, SIGCONT: one step back at most, and not at every point.

    What the zombie was about to send when it was held, or had handed to librdkafka, takes the
    group back: in simple mode no broker refuses it, and the zombie goes on as if it were alone.
    The successor names it before its own next commit, which is the last word.
    """
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
    assert stage.holds(60)


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
    assert stage.holds(50)
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
    [
        *FENCING,
        *(
            pytest.param(*one, marks=pytest.mark.campaign)
            for one in FENCING_TOO
            if one not in FENCING
        ),
    ],
)
def test_held_there_in_a_mode_that_fences(
    stage: Stage, tmp_path: Path, mode: str, point: str, nth: int
) -> None:
    """The broker refuses all that the zombie was about to do, and whatever it does later.

    Even what would be no step back. It says once that it was replaced; the successor goes on.
    """
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
    assert stage.holds(60)
    assert stage.went_back() == []
    assert len([line for line in zombie.lines if line.startswith("CommitterFenced")]) == 1
    offer(successor, 61)
    assert not [line for line in successor.lines if line.startswith("CommitterFenced")]


def drained(attacked: Attacked, group: str, records: int, seconds: float) -> bool:
    """Whether the group comes to hold all records of the topic within that time."""
    deadline = time.monotonic() + seconds
    while sum(attacked.offsets.held(group).values()) != records:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


# Two JVMs each; tests/listener/test_edges.py has the state after such a crash.
@pytest.mark.campaign
@pytest.mark.spark
@pytest.mark.parametrize(
    ("point", "nth"),
    [*((point, nth) for point in SPARK for nth in (1, 2, 4)), *((point, 1) for point in CLOSING)],
)
def test_a_driver_killed_there_is_right_after_a_restart(
    attacked: Attacked, tmp_path: Path, point: str, nth: int
) -> None:
    """A whole driver with a real query is killed there; 10 s after a restart the group is right.

    At the first occurrence all is in one batch, and the restart finds nothing new to read. No
    commit of either driver was ever ahead of the checkpoint, or went back.
    """
    topic, group = attacked.topics.create(partitions=3), unique("crash")
    attacked.topics.fill(topic, 300)
    job = Job(
        servers=attacked.direct,
        topic=topic,
        group=group,
        checkpoint=str(tmp_path / "c"),
        batch=1000 if nth == 1 else 50,
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
        assert drained(attacked, group, 300, 10.0)
        restarted.say("stop")
        restarted.await_line("stopped")
        assert restarted.end() == 0
    assert audit(attacked.offsets.commits(group), Durable(tmp_path / "c").bound) == ()
