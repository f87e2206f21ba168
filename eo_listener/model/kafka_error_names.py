"""Kafka's error names, in librdkafka's words and in Java's, by what they mean to one who waits."""

from __future__ import annotations

from typing import Final

COORDINATOR_MOVES: Final = frozenset(
    {
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "_WAIT_COORD",
    }
)
"""The group's coordinator is being made, loads, or has moved: that is no answer about a group."""

LEADER_MOVES: Final = frozenset(
    {
        "FENCED_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "NOT_LEADER_OR_FOLLOWER",
        "UNKNOWN_LEADER_EPOCH",
    }
)
"""A partition's leader is being elected, or has moved."""

NO_TOPIC: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_OR_PARTITION"})
"""A broker's answer for what does not exist, or what it has not heard of yet."""

PASSING: Final = (
    COORDINATOR_MOVES
    | LEADER_MOVES
    | {
        "BROKER_NOT_AVAILABLE",
        "KAFKA_STORAGE_ERROR",
        "LISTENER_NOT_FOUND",
        "NETWORK_EXCEPTION",
        "NOT_CONTROLLER",
        "OFFSET_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
    }
)
"""What a cluster answers while brokers come, go and change their parts."""
