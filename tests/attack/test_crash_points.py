"""Killed, or held and resumed, at each of its crash points: what a committer leaves behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.attack.conftest import Attacked
from tests.attack.driver import Job
from tests.attack.durable import Durable
from tests.attack.faults import Fault, environment
from tests.attack.offsets_topic import audit
from tests.attack.test_zombies import Stage, offer
from tests.attack.zombies import Puppet
from tests.topics import unique

pytestmark = pytest.mark.kafka

LOOKING = ["look.before-request", "look.answered"]
COMMITTING = ["commit.before-request", "commit.after-request", "commit.answered"]
SPARK = ["listener.progress", "router.before-route", *COMMITTING]
CLOSING = ["close.before-drain", "close.before-flush", "close.after-flush"]


@pytest.fixture
def stage(attacked: Attacked) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(attacked, stack)


def first_and_second(points: list[str]) -> list[object]:
    """Each point at its first occurrence, and in the slow tests at its second too."""
    slow = pytest.mark.slow
    return [(point, 1) for point in points] + [
        pytest.param(point, 2, marks=slow) for point in points
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
    victim = stage.driver("a", environment=faults, look_every=0.25)
    offer_until(victim, lambda: victim.code() is not None)
    assert victim.code() == -signal.SIGKILL
    assert (tmp_path / "log").read_text().splitlines()[-1] == f"{point} {nth} kill"
    successor = stage.driver("b")
    offer(successor, 50)
    assert stage.held() == 50
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
    zombie = stage.driver("a", environment=faults, look_every=0.25)
    offer_until(zombie, zombie.frozen)
    successor = stage.driver("b", look_every=0.25)
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
    if point in ("look.before-request", "commit.answered"):
        assert back == []
    if point == "commit.before-request":
        assert back != []  # else this test would not reach what it is about
    if back:
        successor.await_line("ForeignCommit")
    else:
        assert ending.startswith("CommitRefused")
    assert stage.held() == 60


def drained(attacked: Attacked, group: str, records: int, seconds: float) -> bool:
    """Whether the group comes to hold all records of the topic within that time."""
    deadline = time.monotonic() + seconds
    while sum(attacked.offsets.held(group).values()) != records:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.spark
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("point", "nth"),
    [
        ("commit.before-request", 2),
        *(
            pytest.param(point, nth, marks=pytest.mark.slow)
            for point in SPARK
            for nth in (1, 2, 4)
            if (point, nth) != ("commit.before-request", 2)
        ),
        *(pytest.param(point, 1, marks=pytest.mark.slow) for point in CLOSING),
    ],
)
def test_a_driver_killed_there_is_right_after_a_restart_without_news(
    attacked: Attacked, tmp_path: Path, point: str, nth: int
) -> None:
    """A whole driver with a real query: restarted with nothing to read, the group is right in 10 s.

    And no commit of either was ever ahead of the checkpoint, or went back.
    """
    topic, group = attacked.topics.create(partitions=3), unique("crash")
    attacked.topics.fill(topic, 500)
    job = Job(
        servers=attacked.direct,
        topic=topic,
        group=group,
        checkpoint=str(tmp_path / "c"),
        batch=60,
    )
    faults = environment({point: Fault(do="kill", nth=nth)}, tmp_path / "log")
    with Puppet("tests.attack.driver", job.text(), environment=faults) as victim:
        victim.say("drain")
        if point in CLOSING:
            victim.say("stop")
        assert victim.wait(90) == -signal.SIGKILL
    # The rest is processed by a driver that nobody listens to: a restart then has nothing to read.
    quiet = replace(job, group=unique("elsewhere"))
    with Puppet("tests.attack.driver", quiet.text()) as other:
        other.say("drain")
        other.await_line("drained", 90)
    with Puppet("tests.attack.driver", job.text()) as restarted:
        restarted.await_line("ready", 90)
        assert drained(attacked, group, 500, 10.0)
        restarted.say("stop")
        restarted.await_line("stopped")
        assert restarted.end() == 0
    assert audit(attacked.offsets.commits(group), Durable(tmp_path / "c").bound) == ()
