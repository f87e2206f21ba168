"""Reads the offsets of many consumer groups, and sends all requests at once; changes nothing.

This module uses the AdminClient, whose group requests can end the whole process while a broker
restarts (see `eo_listener.kafka`). So a command that reads repeatedly sends the requests from a
separate process, and treats the end of that process like any other error. With a Consumer for each
group, as in the group stores, reading a thousand groups would take a minute.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

from eo_listener.client_config.validation import require_name
from eo_listener.errors import KafkaError
from eo_listener.kafka.client import answer_of, open_admin, seconds_until
from eo_listener.kafka.logs import positions_of
from eo_listener.kafka.separate_process import SeparateProcess
from eo_listener.model.kafka_errors import COORDINATOR_MOVES
from eo_listener.offsets import Position, TopicPartition

_REQUEST: Final = 5.0
_PAUSE: Final = 0.2
_NO_GROUP: Final = "GROUP_ID_NOT_FOUND"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldByGroup:
    """A group's offsets.

    `error` is Kafka's name for the error if the offsets could not be read, else None.
    """

    positions: Mapping[TopicPartition, Position]
    error: str | None = None


class ManyGroups:
    """Reads the groups of one cluster. Every call takes at most `timeout` seconds.

    Every call raises KafkaError on failure. With `apart`, a separate process sends the requests;
    `close` ends that process. Only one thread may use the object, but any thread may call `close`.
    """

    def __init__(
        self, properties: Mapping[str, str], *, apart: bool, timeout: float = 10.0
    ) -> None:
        self._properties = dict(properties)
        self._timeout = timeout
        self._apart = apart
        self._process = SeparateProcess()

    def names(self) -> tuple[str, ...]:
        """Return the sorted names of all consumer groups that the client may describe."""
        names: tuple[str, ...] = self._call(_names, self._properties, self._timeout)
        return names

    def read(self, names: Iterable[str]) -> dict[str, HeldByGroup]:
        """Return the offsets of each group; a group that does not exist has no offsets."""
        groups = tuple(names)
        for name in groups:
            require_name("group", name)
        offsets: dict[str, HeldByGroup] = self._call(_read, self._properties, groups, self._timeout)
        return offsets

    def close(self) -> None:
        """End the separate process at once, even in the middle of a call."""
        self._process.close()

    def _call(self, ask: Any, *arguments: Any) -> Any:
        if not self._apart:
            return ask(*arguments)
        try:
            return self._process.call(ask, *arguments)
        except BrokenProcessPool as error:
            failure = _failure(self._properties, "reading groups", "_DESTROY")
            raise KafkaError(
                f"{failure.problem}: the process that reads them has ended",
                code=failure.code,
                cause="librdkafka may end it while a broker restarts",
                fix="Wait for the next reading, which starts another process; if that ends "
                "too, check the options",
            ) from error


def _failure(properties: Mapping[str, str], action: str, code: str) -> KafkaError:
    servers = properties.get("bootstrap.servers", "")
    return KafkaError(f"{action} at {servers} failed: {code}", code=code)


def _names(properties: Mapping[str, str], timeout: float) -> tuple[str, ...]:
    """Return the names of the groups. Raises KafkaError."""
    admin = open_admin(properties)
    try:
        listed: Any = admin.list_consumer_groups(request_timeout=timeout).result(timeout=timeout)
    except (KafkaException, Late) as error:
        raise _failure(properties, "listing groups", answer_of(error).name()) from error
    if not listed.valid and listed.errors:  # KafkaErrors, not exceptions
        raise _failure(properties, "listing groups", str(listed.errors[0].name()))
    return tuple(sorted(group.group_id for group in listed.valid))


def _read(
    properties: Mapping[str, str], names: Sequence[str], timeout: float
) -> dict[str, HeldByGroup]:
    admin = open_admin(properties)
    deadline = time.monotonic() + timeout
    groups: dict[str, HeldByGroup] = {}
    remaining = list(names)
    while remaining:
        # All requests at once; librdkafka accepts one group in each.
        requests: dict[str, Future[Any]] = {
            name: admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(name)], request_timeout=_REQUEST
            )[name]
            for name in remaining
        }
        for name, future in requests.items():
            groups[name] = _answer(future, deadline)
        remaining = [name for name in remaining if groups[name].error in COORDINATOR_MOVES]
        if time.monotonic() + _PAUSE >= deadline:
            break
        if remaining:
            time.sleep(_PAUSE)
    return groups


def _answer(future: Future[Any], deadline: float) -> HeldByGroup:
    try:
        parts = future.result(timeout=seconds_until(deadline)).topic_partitions
    except (KafkaException, Late) as error:
        code = answer_of(error).name()
        return HeldByGroup(positions={}, error=None if code == _NO_GROUP else code)
    positions = positions_of(parts)
    refused = [part.error.name() for part in parts if part.error is not None]
    return HeldByGroup(positions=positions, error=refused[0] if refused and not positions else None)
