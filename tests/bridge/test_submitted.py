"""Configuration alone: a job under spark-submit that knows nothing of eo_listener."""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from eo_listener.errors import KafkaError
from eo_listener.model.commit_metadata import CommitMetadata
from tests.attack.offsets_topic import OffsetsTopic
from tests.bridge.submitted import Driver, is_bridge
from tests.broker import Broker, parse_rows
from tests.groups import described, positions, total
from tests.topics import Topics, unique
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@dataclass(frozen=True)
class Jobs:
    """Queries of one driver on one broker, each on a topic and for a group of its own."""

    driver: Driver
    broker: Broker
    folder: Path

    @property
    def topics(self) -> Topics:
        return Topics(self.broker.bootstrap_servers)

    def start(self, topic: str, *, session: str = "first") -> str:
        """Start a query; return its group, whose coordinator is there: else a refusal is logged."""
        group = unique("g")
        until(lambda: is_served(self.broker, group), 60, f"{group} has no coordinator")
        self.restart(topic, group, session=session)
        return group

    def restart(
        self, topic: str, group: str, *, session: str = "first", starting: str = "earliest"
    ) -> None:
        """Start a query with a new checkpoint."""
        self.driver.tell(
            "start",
            servers=self.broker.bootstrap_servers,
            topic=topic,
            group=group,
            checkpoint=str(self.folder / unique(group)),
            session=session,
            starting=starting,
        )

    def drain(self, topic: str, group: str, records: int = 100) -> None:
        """Have more records processed."""
        self.topics.fill(topic, records)
        self.driver.tell("drain", group=group)

    def await_held(self, group: str, records: int, seconds: float = 30) -> None:
        """Wait until the group holds the end of all that was processed."""

        def holds() -> bool:
            return self.held(group) == records

        until(holds, seconds, f"{group} is not at {records}: {self.driver.log[-3000:]}")

    def held(self, group: str) -> int:
        """The sum of a group's offsets."""
        return held(self.broker, group)


def held(broker: Broker, group: str) -> int:
    """The sum of a group's offsets; 0 while its coordinator is only being made."""
    try:
        return total(broker.bootstrap_servers, group)
    except KafkaError:
        return 0


def is_served(broker: Broker, group: str) -> bool:
    """Whether a coordinator answers for this group."""
    try:
        positions(broker.bootstrap_servers, group)
    except KafkaError:
        return False
    return True


def said(log: str) -> list[str]:
    """Return the lines of a driver's log from the bridge and its supervisor; a path is no word."""
    words = re.compile(r" Bridge: |(?<![/\w])eo_listener(?![/\w])")
    return [line for line in log.splitlines() if words.search(line)]


@pytest.fixture(scope="module")
def jobs(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """One driver for the tests of this file that leave it running."""
    folder = tmp_path_factory.mktemp("driver")
    conf = {"spark.eo.bridge.timeout": "3s"}
    hook = {"EO_LISTENER_FAULT_POINTS": "tests.bridge.garbler", "EO_GARBLE": str(folder / "garble")}
    with Driver(folder, conf=conf, **hook) as driver:
        yield Jobs(driver, broker, folder)
    assert not [one for one in driver.family() if is_bridge(one)]


def test_a_job_that_knows_nothing_of_it(jobs: Jobs) -> None:
    """Each batch of both sessions is committed in seconds by one bridge; nothing is said."""
    topic = jobs.topics.create()
    first, second = jobs.start(topic), jobs.start(topic, session="second")
    for records in (100, 200):
        jobs.drain(topic, first)
        jobs.driver.tell("drain", group=second)
        for group in (first, second):
            jobs.await_held(group, records)
    jobs.driver.bridge()  # there is exactly one
    for group in (first, second):
        positioned = positions(jobs.broker.bootstrap_servers, group).values()
        written = {CommitMetadata.parse(one.metadata) for one in positioned}
        assert {one.name for one in written if one is not None} == {group}
        jobs.driver.tell("stop", group=group)
    assert said(jobs.driver.log) == []  # on WARN, what is well says nothing


def test_a_new_checkpoint_at_the_end_of_the_log(jobs: Jobs) -> None:
    """The bridge asks the query for its beginning; the group does not pass the unread records."""
    topic = jobs.topics.create(partitions=1)
    group = jobs.start(topic)
    jobs.drain(topic, group)
    jobs.await_held(group, 100)
    jobs.driver.tell("stop", group=group)
    jobs.topics.fill(topic, 20)
    jobs.restart(topic, group, starting="latest")
    jobs.driver.tell("drain", group=group)

    def withheld() -> bool:
        (position,) = positions(jobs.broker.bootstrap_servers, group).values()
        metadata = CommitMetadata.parse(position.metadata)
        return metadata is not None and metadata.withheld

    until(withheld)
    jobs.drain(topic, group, 30)
    jobs.driver.tell("stop", group=group)
    assert jobs.held(group) == 100


@pytest.mark.parametrize(
    "fault", ["killed", "stopped", pytest.param("garbled", marks=pytest.mark.slow)]
)
def test_a_bridge_that_fails(jobs: Jobs, fault: str) -> None:
    """The query runs on, another bridge commits what is missing, and the log says so once."""
    topic = jobs.topics.create()
    group = jobs.start(topic)
    jobs.drain(topic, group)
    jobs.await_held(group, 100)
    bridge, failures = jobs.driver.bridge(), jobs.driver.log.count("process has failed")
    match fault:
        case "killed":
            bridge.kill()
        case "stopped":
            bridge.suspend()
        case "garbled":
            (jobs.folder / "garble").touch()
    jobs.drain(topic, group)
    jobs.await_held(group, 200)
    until(lambda: not is_bridge(bridge))
    assert jobs.driver.bridge().pid != bridge.pid
    assert jobs.driver.log.count("process has failed") == failures + 1
    jobs.driver.tell("stop", group=group)


@pytest.mark.slow
def test_by_configuration_and_by_add_listener_together(jobs: Jobs) -> None:
    """Each session is committed once: by its own listener, or by the configuration."""
    topic = jobs.topics.create(partitions=1)
    running = jobs.start(topic, session="both")
    jobs.drain(topic, running)
    jobs.await_held(running, 100)
    jobs.driver.tell("listen", session="both")
    both, other = jobs.start(topic, session="both"), jobs.start(topic, session="conf alone")
    for records in (200, 300, 400):
        jobs.drain(topic, both)
        for group in (running, both, other):
            jobs.driver.tell("drain", group=group)
            jobs.await_held(group, records)
    for group in (running, both, other):
        jobs.driver.tell("stop", group=group)
    commits = OffsetsTopic(jobs.broker).commits(both)
    batches = Counter(CommitMetadata.parse(one.metadata) for one in commits)
    assert len(batches) >= 3
    assert set(batches.values()) == {1}


@pytest.mark.slow
def test_events_that_come_twice(broker: Broker, tmp_path: Path) -> None:
    """Named twice in the configuration, and added by the job too, it counts each event once."""
    name = "io.github.eolistener.OffsetCommitListener"
    with Driver(
        tmp_path, conf={"spark.sql.streaming.streamingQueryListeners": f"{name},{name}"}
    ) as driver:
        jobs = Jobs(driver, broker, tmp_path)
        topic = jobs.topics.create()
        running = jobs.start(topic)
        jobs.drain(topic, running)
        driver.tell("listen in Java")
        both = jobs.start(topic)
        for _ in range(3):
            jobs.drain(topic, running)
            driver.tell("drain", group=both)
        for group in (running, both):
            jobs.await_held(group, 400)
            rows = described(broker.bootstrap_servers, group)
            assert {row.lag for row in rows} == {0}
        driver.tell("end")
    (line,) = [one for one in driver.log.splitlines() if " Bridge: " in one]
    assert "came more than once" in line
    assert "Fix: name it once" in line  # the shim says it: the bridge was given each event once


@pytest.mark.slow
def test_the_end_of_spark(jobs: Jobs) -> None:
    """When `spark.stop()` returns all is committed, of a killed bridge too. The last one."""
    topic = jobs.topics.create()
    group = jobs.start(topic)
    jobs.drain(topic, group)
    jobs.await_held(group, 100)
    jobs.drain(topic, group)
    jobs.driver.bridge().kill()
    began = time.monotonic()
    jobs.driver.tell("end")
    seconds = time.monotonic() - began
    assert jobs.held(group) == 200
    assert not [one for one in jobs.driver.family() if is_bridge(one)]
    assert seconds < 10
    rows = parse_rows(jobs.broker.consumer_groups(group))
    assert {row.lag for row in rows} == {0}
    assert "Traceback" not in jobs.driver.log


@pytest.mark.slow
def test_a_second_context_and_a_driver_that_is_killed(broker: Broker, tmp_path: Path) -> None:
    """Another SparkContext has another bridge; a killed driver leaves none, not a stopped one."""
    with Driver(tmp_path) as driver:
        jobs = Jobs(driver, broker, tmp_path)
        topic = jobs.topics.create()
        first = jobs.start(topic)
        jobs.drain(topic, first)
        earlier = driver.bridge()
        driver.tell("end")
        assert jobs.held(first) == 100
        driver.tell("again")
        group = jobs.start(topic)
        driver.tell("drain", group=group)
        jobs.await_held(group, 100)
        bridge = driver.bridge()
        assert bridge != earlier
        bridge.suspend()
        for one in driver.family() - {earlier, bridge}:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        driver.process.kill()
        until(lambda: not psutil.pid_exists(bridge.pid) or not is_bridge(bridge), 30)
