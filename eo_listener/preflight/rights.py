"""Rights in Kafka: which are missing. Pure."""

from __future__ import annotations

from collections.abc import Collection

from eo_listener.client_config.acls import command
from eo_listener.preflight.findings import CheckFinding, problem

# What implies another right, in Kafka's AclAuthorizer.
_IMPLIED = {"DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"}}


def missing(needed: Collection[str], granted: Collection[str]) -> tuple[str, ...]:
    """Those of `needed` that the client does not have; names as Kafka writes them."""
    return tuple(
        one
        for one in needed
        if one not in granted
        and "ALL" not in granted
        and not _IMPLIED.get(one, set()).intersection(granted)
    )


def refused(
    about: str,
    servers: str,
    principal: str | None,
    operations: Collection[str],
    resource: Collection[str],
) -> CheckFinding:
    """Say which right is missing on a `resource`, which is an option of kafka-acls and a name."""
    words = [operation.title() for operation in operations]
    return problem(
        about,
        f"{principal or 'this client'} may not {' and '.join(words)}",
        f"as an administrator: {command(servers, principal, operations, resource)}",
    )
