"""The command that gives a right in Kafka, as an administrator types it."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from typing import Final

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
