"""Brokers for the tests: one that all share, and a way to start another."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from eo_listener.errors import KafkaError
from tests.broker import DEFAULT, Broker
from tests.groups import positions
from tests.topics import Topics
from tests.waiting import until

StartBroker = Callable[..., Broker]
SLOW_AT_A_TIME = 15

# Where tests run in the background of a shell, SIGINT is ignored, and so it would be by all they
# start: a Ctrl-C sent to one of these would do nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)

# On a busy machine anything may take long; that is no fault of what is tested.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file on one worker of xdist, for what they share; slow ones in parts."""
    slow: Counter[str] = Counter()
    for item in items:
        file = group = item.nodeid.split("::", 1)[0]
        if item.get_closest_marker("slow") or item.get_closest_marker("campaign"):
            group = f"{file}-{slow[file] // SLOW_AT_A_TIME}"
            slow[file] += 1
        item.add_marker(pytest.mark.xdist_group(group))


def kafka_version() -> str:
    return os.environ.get("EO_TEST_KAFKA", DEFAULT)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One node that all tests share: choose topics and groups of your own, never stop it."""
    with Broker(version=kafka_version()) as running:
        servers = running.bootstrap_servers
        # At first the coordinator of the group is being made.
        until(lambda: positions(servers, "first") == {}, despite=KafkaError)
        yield running


@pytest.fixture(scope="session")
def topics(broker: Broker) -> Topics:
    """Topics of the shared broker."""
    return Topics(broker.bootstrap_servers)


@pytest.fixture
def start_broker() -> Iterator[StartBroker]:
    """Start brokers of the test's own, with the arguments of Broker; they end with the test."""
    started: list[Broker] = []

    def start(**options: Any) -> Broker:
        one = Broker(**{"version": kafka_version(), **options})
        started.append(one)
        one.start()
        return one

    yield start
    for one in started:
        one.stop()
