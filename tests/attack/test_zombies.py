"""A committer that was suspended while a successor took over: what it does when it resumes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from types import MappingProxyType

import pytest

from eo_listener.offsets import TopicPartition
from tests.attack.conftest import Attacked
from tests.attack.offerer import Settings
from tests.attack.offsets_topic import audit
from tests.attack.wire_faults import Hold, Way
from tests.attack.zombies import Puppet
from tests.topics import unique
from tests.waiting import until

pytestmark = pytest.mark.kafka


class Stage:
    """A group, and drivers in small that commit to it one after the other."""

    def __init__(self, attacked: Attacked, stack: ExitStack) -> None:
        self.attacked = attacked
        self.group, self.topic = unique("haunted"), attacked.topics.create(partitions=1)
        attacked.topics.fill(self.topic, 1000)
        self.partition = TopicPartition(self.topic, 0)
        self._stack = stack

    def driver(
        self,
        run: str,
        *,
        proxied: bool = False,
        environment: Mapping[str, str] = MappingProxyType({}),
        **more: object,
    ) -> Puppet:
        settings = Settings(
            servers=self.attacked.servers if proxied else self.attacked.direct,
            group=self.group,
            topic=self.topic,
            run_id=run * 36,
            **more,  # type: ignore[arg-type]  # of Settings, which checks their names
        )
        puppet = Puppet("tests.attack.offerer", settings.text(), environment=environment)
        self._stack.enter_context(puppet).await_line("ready")
        return puppet

    def await_held(self, offset: int) -> None:
        """Wait for it in the group: a transaction is answered before its marker is in."""
        until(lambda: self.held() == offset, 10.0)

    def held(self) -> int | None:
        return self.attacked.offsets.held(self.group).get(self.partition)

    def went_back(self) -> list[tuple[int | None, int]]:
        found = audit(self.attacked.offsets.commits(self.group))
        return [(one.commit.offset, one.limit) for one in found]


@pytest.fixture
def stage(attacked: Attacked) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(attacked, stack)


def offer(driver: Puppet, offset: int) -> None:
    driver.say(f"offer {offset}")
    driver.await_line(f"Committed {offset}")


def test_a_process_group_stands_still_and_goes_on(stage: Stage) -> None:
    """A suspended driver sends nothing, keeps what it is given, and continues when resumed."""
    driver = stage.driver("a")
    offer(driver, 5)
    driver.freeze()
    driver.say("offer 6")
    time.sleep(0.5)
    assert stage.held() == 5
    driver.thaw()
    driver.await_line("Committed 6")
    driver.say("close")
    driver.await_line("closed")
    assert driver.end() == 0
    assert stage.went_back() == []


def test_a_request_in_flight_of_a_dead_driver_lands_late(stage: Stage) -> None:
    """In simple mode the group moves back, which the audit reports and the next commit heals."""
    zombie = stage.driver("a", proxied=True)
    offer(zombie, 5)
    fault = stage.attacked.proxy.arm("OffsetCommit", Hold(Way.REQUEST))
    zombie.say("offer 10")
    assert fault.wait(20)
    zombie.kill()
    successor = stage.driver("b")
    offer(successor, 50)
    fault.release()
    stage.await_held(10)
    offer(successor, 60)
    stage.await_held(60)
    assert stage.went_back() == [(10, 50)]


def test_a_zombie_that_reads_the_group_first_does_no_harm(stage: Stage) -> None:
    """After a pause longer than `snapshot_max_age` it reads the group, and finds the successor."""
    zombie, successor = stage.driver("a", snapshot_max_age=1.0), stage.driver("b")
    offer(zombie, 5)
    zombie.freeze()
    zombie.say("offer 10")
    offer(successor, 50)
    time.sleep(1.5)
    zombie.thaw()
    zombie.await_line("CommitRefused 10")
    zombie.await_line("ForeignCommit")
    offer(successor, 60)
    stage.await_held(60)
    assert stage.went_back() == []
