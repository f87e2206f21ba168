"""The first question about a group that a cluster is ever asked: it has no coordinators yet."""

from __future__ import annotations

import subprocess
import sys

import pytest

from eo_listener.devtools.broker import Broker
from tests.conftest import kafka_version
from tests.topics import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["group", "seed", "g", "--from-offsets", '{"flights":{"0":0}}'], 0),
        (["preflight", "--group", "g"], 0),
    ],
)
def test_no_command_ends_by_a_signal(command: list[str], code: int) -> None:
    """librdkafka takes a broker that is not the coordinator for the end of a null pointer."""
    with Broker(version=kafka_version()) as broker:
        Topics(broker.bootstrap_servers).create_as("flights", 1)
        ran = subprocess.run(
            [sys.executable, "-m", "eo_listener", *command, "-b", broker.bootstrap_servers],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    assert ran.returncode == code, (ran.stdout, ran.stderr)
