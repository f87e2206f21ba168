"""A broker that allows its users nothing but what ACLs say, and one of them, al."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # no __all__
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.broker import Broker, Listener
from tests.conftest import StartBroker

PASSWORD = "planted-secret"  # noqa: S105  # of a broker that lives for a test
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{MODULE} required username="al" password="{PASSWORD}";',
    }
)
PROPERTIES: Mapping[str, str] = MappingProxyType(
    {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "al",
        "sasl.password": PASSWORD,
    }
)
"""How al logs in, in the names of Java and of librdkafka."""


@dataclass(frozen=True, kw_only=True)
class Locked:
    """The broker; `servers` is where al logs in, `inside` where everything is allowed."""

    broker: Broker
    admin: AdminClient

    @property
    def servers(self) -> str:
        return self.broker.addresses("PLAIN")

    @property
    def inside(self) -> str:
        return self.broker.bootstrap_servers

    def allow(self, kind: str, name: str, *operations: str) -> None:
        """Give al rights, as the option and the operations of kafka-acls are called."""
        rights = [_right(AclBinding, kind, name, operation) for operation in operations]
        for done in self.admin.create_acls(rights).values():
            done.result(30)

    def revoke(self, kind: str, name: str, operation: str) -> None:
        right = _right(AclBindingFilter, kind, name, operation)
        for done in self.admin.delete_acls([right]).values():
            assert len(done.result(30)) == 1

    def grant(self, command: str) -> tuple[str, str]:
        """Do what a command of kafka-acls says; return what it is about."""
        words = shlex.split(command)
        assert words[:1] == ["kafka-acls"]
        pairs = list(pairwise(words))
        assert ("--allow-principal", "User:al") in pairs
        kind = words[-1] if words[-1] == "--cluster" else words[-2]
        names = [name for word, name in pairs if word == kind] or ["kafka-cluster"]
        for name in names:
            self.allow(kind, name, *(right for word, right in pairs if word == "--operation"))
        return kind, names[-1]


def _right(make: Any, kind: str, name: str, operation: str) -> Any:
    resource = "BROKER" if kind == "--cluster" else kind[2:].replace("-", "_").upper()
    allowed = AclOperation[re.sub(r"(?<!^)(?=[A-Z])", "_", operation).upper()]
    pattern, permission = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    return make(ResourceType[resource], name, pattern, "User:al", "*", allowed, permission)


def start_locked(start_broker: StartBroker) -> Locked:
    listener = Listener(
        name="PLAIN",
        security_protocol="SASL_PLAINTEXT",
        properties={
            "sasl.enabled.mechanisms": "PLAIN",
            "plain.sasl.jaas.config": f'{MODULE} required user_al="{PASSWORD}";',
        },
    )
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    broker = start_broker(listeners=[listener], properties=authorizer)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    return Locked(broker=broker, admin=admin)
