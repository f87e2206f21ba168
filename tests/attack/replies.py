"""Replies that no broker has given: a request refused with an error code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.attack.messages import Fields, Messages

# A few of org.apache.kafka.common.protocol.Errors, by the names that it gives them.
ERRORS: Final = {
    "UNKNOWN_SERVER_ERROR": -1,
    "OFFSET_OUT_OF_RANGE": 1,
    "REQUEST_TIMED_OUT": 7,
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
    "NOT_ENOUGH_REPLICAS": 19,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": 20,
    "ILLEGAL_GENERATION": 22,
    "UNKNOWN_MEMBER_ID": 25,
    "GROUP_AUTHORIZATION_FAILED": 30,
    "OUT_OF_ORDER_SEQUENCE_NUMBER": 45,
    "INVALID_PRODUCER_EPOCH": 47,
    "INVALID_TXN_STATE": 48,
    "INVALID_PRODUCER_ID_MAPPING": 49,
    "CONCURRENT_TRANSACTIONS": 51,
    "KAFKA_STORAGE_ERROR": 56,
    "UNKNOWN_PRODUCER_ID": 59,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "LEADER_NOT_AVAILABLE": 5,
    "NOT_LEADER_OR_FOLLOWER": 6,
    "FENCED_INSTANCE_ID": 82,
    "UNSTABLE_OFFSET_COMMIT": 88,
    "PRODUCER_FENCED": 90,
}

READS: Final = frozenset({"Metadata", "ListOffsets", "OffsetFetch"})
"""What changes nothing on the broker: these are let through, and their real reply is changed."""


class Refusals:
    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def reply(self, api: int, version: int, correlation: int, request: bytes, code: int) -> bytes:
        """The frame that refuses a request with this body. Raises KeyError for other apis."""
        asked = self._messages.request(api).decode(version, request)
        fields = _BUILT[self._messages.api_name(api)](asked, code)
        return self._frame(api, version, correlation, fields)

    def spoil(self, api: int, version: int, frame: bytes, code: int) -> bytes:
        """The same reply to a read, with this error instead of each answer."""
        head = self._messages.reply_head(api, version, int.from_bytes(frame[:4], "big"))
        fields = self._messages.reply(api).decode(version, frame[len(head) :])
        _SPOILT[self._messages.api_name(api)](fields, code)
        return self._frame(api, version, int.from_bytes(frame[:4], "big"), fields)

    def _frame(self, api: int, version: int, correlation: int, fields: Fields) -> bytes:
        head = self._messages.reply_head(api, version, correlation)
        return head + self._messages.reply(api).encode(version, fields)


def _topic(topic: Fields) -> Fields:
    """What names it, which depends on the version."""
    return {key: topic[key] for key in ("Name", "Topic", "TopicId") if key in topic}


def _each_part(
    topics: list[Fields], parts: str, replied: str, reply: Callable[[Any], Fields]
) -> list[Fields]:
    return [{**_topic(one), replied: [reply(part) for part in one[parts]]} for one in topics]


def _partitions(asked: Fields, code: int) -> Fields:
    def refuse(part: Any) -> Fields:
        return {"PartitionIndex": part["PartitionIndex"], "ErrorCode": code}

    return {"Topics": _each_part(asked["Topics"], "Partitions", "Partitions", refuse)}


def _added(asked: Fields, code: int) -> Fields:
    """Of a version that clients ask in: those after 3 are between brokers."""

    def refuse(number: Any) -> Fields:
        return {"PartitionIndex": number, "PartitionErrorCode": code}

    topics = _each_part(asked["V3AndBelowTopics"], "Partitions", "ResultsByPartition", refuse)
    return {"ResultsByTopicV3AndBelow": topics}


def _produced(asked: Fields, code: int) -> Fields:
    def refuse(part: Any) -> Fields:
        nothing = {"BaseOffset": -1, "LogAppendTimeMs": -1}
        return {"Index": part["Index"], "ErrorCode": code, **nothing}

    topics = _each_part(asked["TopicData"], "PartitionData", "PartitionResponses", refuse)
    return {"Responses": topics}


def _fetched(asked: Fields, code: int) -> Fields:
    def refuse(part: Any) -> Fields:
        nothing = {"HighWatermark": -1, "PreferredReadReplica": -1}
        return {"PartitionIndex": part["Partition"], "ErrorCode": code, **nothing}

    return {"Responses": _each_part(asked["Topics"], "Partitions", "Partitions", refuse)}


def _coordinator(asked: Fields, code: int) -> Fields:
    nobody = {"NodeId": -1, "Host": "", "Port": -1, "ErrorCode": code, "ErrorMessage": None}
    keys = asked.get("CoordinatorKeys", ())
    return {**nobody, "Coordinators": [{"Key": key, **nobody} for key in keys]}


def _code(asked: Fields, code: int) -> Fields:
    return {"ErrorCode": code, "ProducerId": -1, "ProducerEpoch": -1}


_BUILT: Final[dict[str, Callable[[Fields, int], Fields]]] = {
    "OffsetCommit": _partitions,
    "TxnOffsetCommit": _partitions,
    "FindCoordinator": _coordinator,
    "InitProducerId": _code,
    "AddPartitionsToTxn": _added,
    "AddOffsetsToTxn": _code,
    "EndTxn": _code,
    "Produce": _produced,
    "Fetch": _fetched,
    "Heartbeat": _code,
}


def _each(fields: Fields, code: int, *path: str) -> None:
    if not path:
        fields["ErrorCode"] = code
        return
    inner: list[Any] = fields.get(path[0]) or []
    for one in inner:
        _each(one, code, *path[1:])


def _spoil_fetched(fields: Fields, code: int) -> None:
    _each(fields, code)
    _each(fields, code, "Topics", "Partitions")
    _each(fields, code, "Groups")
    _each(fields, code, "Groups", "Topics", "Partitions")


_SPOILT: Final[dict[str, Callable[[Fields, int], None]]] = {
    "Metadata": lambda fields, code: _each(fields, code, "Topics"),
    "ListOffsets": lambda fields, code: _each(fields, code, "Topics", "Partitions"),
    "OffsetFetch": _spoil_fetched,
}
