"""A broker behind the proxy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.attack.exactly_once import settings
from tests.attack.offsets_topic import OffsetsTopic
from tests.attack.proxy import Proxy
from tests.broker import Broker
from tests.conftest import kafka_version
from tests.postgres_server import postgres
from tests.spark_session import spark
from tests.topics import Topics
from tests.waiting import until

__all__ = ["postgres", "spark"]  # fixtures of this folder


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """A broker, the proxy before it for clients of `servers`, and its `__consumer_offsets`."""

    broker: Broker
    proxy: Proxy
    topics: Topics
    offsets: OffsetsTopic

    @property
    def servers(self) -> str:
        return self.proxy.address

    @property
    def direct(self) -> str:
        return self.broker.bootstrap_servers

    def await_held(self, group: str, records: int, seconds: float = 30.0) -> None:
        until(lambda: sum(self.offsets.held(group).values()) == records, seconds)


@contextmanager
def new_attacked() -> Iterator[Attacked]:
    """Start one; it knows its first topic and has made its coordinators."""
    with (
        Proxy() as proxy,
        Broker(version=kafka_version(), listeners=[proxy.listener()]) as broker,
    ):
        proxy.forward(broker)
        yield Attacked(
            broker=broker,
            proxy=proxy,
            topics=Topics(broker.bootstrap_servers),
            offsets=OffsetsTopic(broker),
        )


@pytest.fixture(scope="session")
def attacked_broker() -> Iterator[Attacked]:
    """One for all tests."""
    with new_attacked() as made:
        yield made


@pytest.fixture
def attacked(attacked_broker: Attacked) -> Iterator[Attacked]:
    """The broker with no fault armed, and counts from zero."""
    attacked_broker.proxy.forget_counts()
    yield attacked_broker
    attacked_broker.proxy.disarm()


@pytest.fixture
def begin(request: pytest.FixtureRequest, tmp_path: Path) -> settings.Begin:
    """Begin a query in the folder of the test."""
    return partial(settings.begin, request=request, folder=tmp_path)
