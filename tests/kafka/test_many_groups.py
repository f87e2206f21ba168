"""Many groups are read at once, and the end of the process that asks is an error like any other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from eo_listener.kafka.many_groups import ManyGroups
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import TopicPartition
from tests.broker import Broker
from tests.groups import commit
from tests.topics import Topics, unique
from tests.waiting import until

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("apart", [False, True])
def test_offsets_and_metadata(apart: bool, broker: Broker) -> None:
    """As they were committed; nothing for a group that does not exist."""
    servers, group = broker.bootstrap_servers, unique("g")
    topic = Topics(servers).create(partitions=2)
    commit(servers, group, topic, {0: 3, 1: 5})
    with closing(ManyGroups({"bootstrap.servers": servers}, apart=apart)) as many:
        assert group in many.names()
        found = many.read([group, "nosuch"])
    assert {tp: at.offset for tp, at in found[group].positions.items()} == {
        TopicPartition(topic, 0): 3,
        TopicPartition(topic, 1): 5,
    }
    assert all("odd [/red] name" in at.metadata for at in found[group].positions.values())
    assert (found["nosuch"].positions, found["nosuch"].error) == ({}, None)


def test_a_process_that_dies_is_replaced(broker: Broker) -> None:
    """As librdkafka may end it: one reading fails, the next one succeeds."""
    with closing(ManyGroups({"bootstrap.servers": broker.bootstrap_servers}, apart=True)) as many:
        many.names()
        child = many._process.pid
        assert child is not None
        os.kill(child, signal.SIGKILL)
        with pytest.raises(KafkaError, match="failed: _DESTROY"):
            many.names()
        many.names()
        assert many._process.pid != child


@pytest.mark.parametrize("apart", [False, True])
def test_a_cluster_that_is_away(apart: bool) -> None:
    """An error of Kafka's, from whichever process has asked."""
    properties = {"bootstrap.servers": "127.0.0.1:1"}
    with closing(ManyGroups(properties, apart=apart, timeout=1.0)) as many:
        with pytest.raises(KafkaError, match="listing groups at 127"):
            many.names()
        assert many.read(["g"])["g"].error is not None


def test_the_end_waits_for_no_answer() -> None:
    """A Ctrl-C while Kafka is away ends the command at once."""
    many = ManyGroups({"bootstrap.servers": "127.0.0.1:1"}, apart=True, timeout=60.0)

    def ask() -> None:
        with pytest.raises(KafkaError):
            many.names()

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: many._process.pid)
    time.sleep(0.5)  # by now it waits
    begun = time.monotonic()
    many.close()
    asking.join(30)
    assert not asking.is_alive()
    assert time.monotonic() - begun < 20


_STARTER = """
import os, time
from eo_listener.kafka.separate_process import SeparateProcess

if __name__ == "__main__":
    process = SeparateProcess()
    print(process.call(os.getpid), flush=True)
    time.sleep(60)
"""


def test_the_process_ends_with_a_program_that_is_killed(tmp_path: Path) -> None:
    """A pool's worker would wait forever, and hold what the program had open."""
    program = tmp_path / "program.py"
    program.write_text(_STARTER)
    started = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    worker = psutil.Process(int(started.stdout.readline()))
    started.kill()
    started.communicate(timeout=30)  # which the worker would hold up
    worker.wait(timeout=30)
