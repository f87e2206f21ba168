"""The command that gives a right in Kafka, as an administrator types it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from typing import Final

from eo_listener.client_config.identities import transactional_id
from eo_listener.client_config.translate import principal as principal_of
from eo_listener.model.events import CommitFailed

_SOMEBODY: Final = "User:CLIENT"  # a place for its name, which is not known here


def command(
    servers: str, principal: str | None, operations: Collection[str], resource: Collection[str]
) -> str:
    """Return it; `resource` is an option of kafka-acls and a name, operations are in any case.

    `principal` is how ACLs name the client (`User:alice`), None where that is unknown.
    """
    words = ["kafka-acls", "--bootstrap-server", servers, "--add"]
    words += ["--allow-principal", principal or _SOMEBODY]
    for operation in operations:
        words += ["--operation", operation.title().replace("_", "")]
    return shlex.join([*words, *resource])


def command_for(
    properties: Mapping[str, str], operations: Collection[str], resource: Collection[str]
) -> str:
    """The same for the client with these properties, librdkafka's."""
    servers = properties.get("bootstrap.servers", "")
    return command(servers, principal_of(properties), operations, resource)


def right_to_add(event: CommitFailed, principal: str | None) -> str | None:
    """The fix for a right that the broker says is missing; None for any other failure.

    `principal` is the client's name in ACLs (`User:alice`), None if unknown.
    """
    match event.code:
        case "GROUP_AUTHORIZATION_FAILED":
            operations, what = ["Read"], ["--group", event.group]
        case "TOPIC_AUTHORIZATION_FAILED":
            topics = {tp.topic for tp, code in event.errors.items() if code == event.code}
            operations = ["Read"]
            what = [word for topic in sorted(topics) for word in ("--topic", topic)]
        case "TRANSACTIONAL_ID_AUTHORIZATION_FAILED":
            operations = ["Write", "Describe"]
            what = ["--transactional-id", transactional_id(event.group)]
        case _:
            return None
    return (
        f"give {principal or 'the client'} the right to {' and '.join(operations)}, as an "
        f"administrator of the cluster: {command(event.cluster, principal, operations, what)}"
    )
