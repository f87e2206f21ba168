"""A transaction that no coordinator has: records that were sent without AddPartitionsToTxn."""

from __future__ import annotations

import shlex
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # no __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from eo_listener.offsets import TopicPartition
from eo_listener.spark import java
from tests.broker import Broker
from tests.waiting import until

_PRODUCE, _VERSION = 0, 3
_TRANSACTIONAL: Final = 0x10
_VERIFICATION: Final = "transaction.partition.verification.enable"
# NOT_ENOUGH_REPLICAS (for a coordinator that loads), INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING
_VERIFIED: Final = (19, 48, 49)
_CASTAGNOLI: Final = 0x82F63B78


@contextmanager
def unverified(servers: str) -> Iterator[None]:
    """Have brokers take records of transactions without asking the coordinator, meanwhile."""
    _set(servers, AlterConfigOpType.SET, "false")
    try:
        yield
    finally:
        _set(servers, AlterConfigOpType.DELETE, None)


def type_command(broker: Broker, command: str) -> None:
    """Run Kafka's own command as it was printed, by the class that its script starts."""
    script, *arguments = shlex.split(command)
    assert script == "kafka-transactions.sh"
    jars = ":".join(map(str, broker.release.jars))
    main = "org.apache.kafka.tools.TransactionsCommand"
    program = [str(java.find().executable), "-cp", jars, main]
    subprocess.run([*program, *arguments], check=True, capture_output=True, timeout=60)


def append(
    servers: str,
    tp: TopicPartition,
    producer_id: int,
    *,
    sequence: int = 0,
    written: int | None = None,
) -> None:
    """Append a record of an open transaction, written then or now, at the first of `servers`."""
    batch = _batch(
        producer_id, sequence, time.time_ns() // 1_000_000 if written is None else written
    )
    topic = (
        struct.pack(">i", 1) + _text(tp.topic) + struct.pack(">iii", 1, tp.partition, len(batch))
    )
    body = _text("nobody") + struct.pack(">hi", -1, 10_000) + topic + batch
    frame = struct.pack(">hhi", _PRODUCE, _VERSION, 1) + _text("tests") + body
    codes: list[int] = []

    def answered() -> bool:
        codes.append(_answer(servers, frame, tp.topic))
        return codes[-1] not in _VERIFIED  # it is reconfigured

    until(answered, 20, lambda: codes[-1])
    assert codes[-1] == 0, f"Kafka's error {codes[-1]}"


def _answer(servers: str, frame: bytes, topic: str) -> int:
    host, _, port = servers.split(",", maxsplit=1)[0].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        answer = connection.makefile("rb")
        (length,) = struct.unpack(">i", answer.read(4))
        answered = answer.read(length)
    code: int = struct.unpack_from(">h", answered, 4 + 4 + 2 + len(topic.encode()) + 4 + 4)[0]
    return code


def _set(servers: str, operation: AlterConfigOpType, value: str | None) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": "0"})
    entry = ConfigEntry(_VERIFICATION, value, incremental_operation=operation)
    for broker in admin.list_topics(timeout=20).brokers:
        resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(timeout=20)


def _batch(producer_id: int, sequence: int, written: int) -> bytes:
    record = b"\x00\x00\x00\x01\x02x\x00"  # of offset 0 in the batch, without a key, value "x"
    counted = struct.pack(
        ">hiqqqhii", _TRANSACTIONAL, 0, written, written, producer_id, 0, sequence, 1
    )
    counted += bytes([2 * len(record)]) + record
    rest = struct.pack(">ibI", -1, 2, _crc32c(counted)) + counted
    return struct.pack(">qi", 0, len(rest)) + rest


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_CASTAGNOLI if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()
