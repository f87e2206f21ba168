"""The first question about a group that a cluster is ever asked: it has no coordinators yet."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.broker import Broker
from tests.conftest import kafka_version
from tests.topics import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize(
    "command",
    [
        ["group", "seed", "g", "--from-offsets", '{"flights":{"0":0}}'],
        ["preflight", "--group", "g"],
    ],
)
def test_no_command_ends_by_a_signal(command: list[str]) -> None:
    """librdkafka ends a process whose AdminClient asks another broker for a group's offsets."""
    with Broker(version=kafka_version()) as broker:
        Topics(broker.bootstrap_servers).create_as("flights", 1)
        ran = subprocess.run(
            [sys.executable, "-m", "eo_listener", *command, "-b", broker.bootstrap_servers],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
