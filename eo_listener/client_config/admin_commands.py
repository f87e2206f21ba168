"""Builds the commands with which an administrator grants rights, and creates or changes topics."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from eo_listener.client_config.cluster import principal as principal_of
from eo_listener.client_config.identities import transactional_id
from eo_listener.errors import KafkaError
from eo_listener.events import CommitFailed

AS_ADMINISTRATOR: Final = "As an administrator of the cluster: "
NO_TOPIC_RIGHT: Final = "TOPIC_AUTHORIZATION_FAILED"
_SOMEBODY: Final = "User:CLIENT"  # a placeholder if the client's name is unknown


def grant_command(
    servers: str, principal: str | None, operations: Collection[str], resource: Collection[str]
) -> str:
    """Return the kafka-acls command that allows `principal` the operations on `resource`.

    `resource` is a pair: an option of kafka-acls, and a name. `operations` may be in upper or lower
    case. `principal` is the client's name in ACLs (`User:alice`), or None if unknown.
    """
    words = ["kafka-acls", "--bootstrap-server", servers, "--add"]
    words += ["--allow-principal", principal or _SOMEBODY]
    for operation in operations:
        words += ["--operation", operation.title().replace("_", "")]
    return shlex.join([*words, *resource])


def grant_command_for(
    properties: Mapping[str, str], operations: Collection[str], resource: Collection[str]
) -> str:
    """Return the result of `grant_command` for the client with these librdkafka `properties`."""
    servers = properties.get("bootstrap.servers", "")
    return grant_command(servers, principal_of(properties), operations, resource)


def topic_options(topics: Iterable[str]) -> list[str]:
    """Return the options of kafka-acls that name `topics`."""
    return [word for topic in topics for word in ("--topic", topic)]


def with_right(
    error: KafkaError,
    properties: Mapping[str, str],
    operations: Collection[str],
    resource: Collection[str],
    *,
    refused: str = NO_TOPIC_RIGHT,
) -> KafkaError:
    """Return `error`; if it reports a missing right, add the command that grants the right.

    `properties` are the client's properties, in librdkafka's names. `refused` is Kafka's name of
    the error for a missing right.
    """
    if error.code != refused:
        return error
    return KafkaError(
        error.problem,
        code=error.code,
        cause="a permission is missing",
        fix=AS_ADMINISTRATOR + grant_command_for(properties, operations, resource),
    )


def right_to_add(event: CommitFailed, principal: str | None) -> str | None:
    """Return the fix for `event` if the broker reported a missing right, else None.

    `principal` is the client's name in ACLs (`User:alice`), or None if unknown.
    """
    match event.code:
        case "GROUP_AUTHORIZATION_FAILED":
            operations, resource = ["Read"], ["--group", event.group]
        case "TOPIC_AUTHORIZATION_FAILED":
            topics = {tp.topic for tp, code in event.errors.items() if code == event.code}
            operations = ["Read"]
            resource = topic_options(sorted(topics))
        case "TRANSACTIONAL_ID_AUTHORIZATION_FAILED":
            operations = ["Write", "Describe"]
            resource = ["--transactional-id", transactional_id(event.group)]
        case _:
            return None
    return (
        f"allow {principal or 'the client'} to {' and '.join(operations)}; as an administrator "
        f"of the cluster: {grant_command(event.cluster, principal, operations, resource)}"
    )


LEDGER_PARTITIONS: Final = 16
"""The partitions of a new ledger topic.

Queries whose heads share a partition wait for each other.
"""


def create_topic(servers: str, topic: str) -> str:
    """Return the command that creates a topic for rows; the user fills in its partition count."""
    return f"{_create(servers, topic)} --partitions N"


def create_ledger(servers: str, topic: str) -> str:
    """Return the command that creates the topic of a ledger."""
    config = f"--config cleanup.policy=compact --partitions {LEDGER_PARTITIONS}"
    return f"{_create(servers, topic)} {config}"


def alter_topic(servers: str, topic: str, setting: str) -> str:
    """Return the command that changes a topic's `setting`, written as name=value."""
    words = ["kafka-configs", "--bootstrap-server", servers, "--alter", "--topic", topic]
    return shlex.join([*words, "--add-config", setting])


def _create(servers: str, topic: str) -> str:
    return shlex.join(["kafka-topics", "--bootstrap-server", servers, "--create", "--topic", topic])
