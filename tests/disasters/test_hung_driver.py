"""A driver that hangs, as `status --watch` and `audit` show it: the real process is suspended."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eo_listener.cli import app
from tests.attack.driver import Job
from tests.attack.zombies import Puppet
from tests.broker import Broker
from tests.cli.commands import Watching
from tests.topics import Topics, unique

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

_WATCHED = 60  # readings, of which ten without a commit are needed for STOP


@contextlib.contextmanager
def records(topics: Topics, topic: str) -> Iterator[None]:
    ended = threading.Event()

    def produce() -> None:
        while not ended.wait(0.1):
            topics.fill(topic, 2)

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        yield
    finally:
        ended.set()
        producer.join(60)


def verdicts(watching: Watching) -> Iterator[tuple[str, int | None]]:
    for told in itertools.islice(watching.readings(), _WATCHED):
        (one,) = told["groups"]
        yield one.get("verdict"), one.get("lag")


def test_a_hung_driver_is_stopped_where_records_wait_and_not_known_where_none_do(
    broker: Broker, tmp_path: Path
) -> None:
    """`OK` while it works; `STOP` while it hangs and records come; `OK` again after it."""
    topics = Topics(broker.bootstrap_servers)
    topic, group = topics.create("flights", 1), unique("hung")
    topics.fill(topic, 5)
    checkpoint = tmp_path / "checkpoint"
    job = Job(servers=topics.servers, topic=topic, group=group, checkpoint=str(checkpoint))
    audit = ["audit", "-b", topics.servers, "-g", group, "-c", str(checkpoint)]
    with (
        Puppet("tests.attack.driver", job.text()) as driver,
        Watching(topics.servers, f"{group}*", every=0.5) as watching,
    ):
        watching.until(lambda told: bool(told["groups"]))  # the driver has started
        with records(topics, topic):
            assert any(verdict == "OK" for verdict, _ in verdicts(watching))
            driver.freeze()
            assert any(verdict == "STOP" for verdict, _ in verdicts(watching))
            driver.thaw()
            assert any(verdict == "OK" for verdict, _ in verdicts(watching))
        assert any(lag == 0 for _, lag in verdicts(watching))
        driver.freeze()
        assert set(verdicts(watching)) == {("OK", 0)}
        said = CliRunner().invoke(app, audit)
        assert said.exit_code == 0, said.output
