"""A broker that allows its users nothing but what ACLs say, and one of them, al."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

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


_RESOURCES: Mapping[str, str] = MappingProxyType({"--cluster": "BROKER"})


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
        given = " ".join(f"--operation {operation}" for operation in operations)
        self.grant(f"kafka-acls --allow-principal User:al {given} {kind} {shlex.quote(name)}")

    def revoke(self, kind: str, name: str, operation: str) -> None:
        """Take a right away again."""
        taken = AclBindingFilter(
            ResourceType[_RESOURCES.get(kind, kind[2:].replace("-", "_").upper())], name,
            ResourcePatternType.LITERAL, "User:al", "*", _operation(operation),
            AclPermissionType.ALLOW,
        )  # fmt: skip
        for done in self.admin.delete_acls([taken]).values():
            assert len(done.result(30)) == 1

    def grant(self, command: str) -> tuple[str, str]:
        """Do what a command of kafka-acls says; return what it is about."""
        words = shlex.split(command)
        assert words[:1] == ["kafka-acls"]
        assert words[words.index("--allow-principal") + 1] == "User:al"
        kind = words[-1] if words[-1] == "--cluster" else words[-2]
        names = [words[at + 1] for at, word in enumerate(words) if word == kind != "--cluster"]
        resource = ResourceType[_RESOURCES.get(kind, kind[2:].replace("-", "_").upper())]
        for name in names or ["kafka-cluster"]:
            for at, word in enumerate(words):
                if word == "--operation":
                    binding = AclBinding(
                        resource, name, ResourcePatternType.LITERAL, "User:al", "*",
                        _operation(words[at + 1]), AclPermissionType.ALLOW,
                    )  # fmt: skip
                    for done in self.admin.create_acls([binding]).values():
                        done.result(30)
        return kind, (names or ["kafka-cluster"])[-1]


def _operation(name: str) -> AclOperation:
    return AclOperation[re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()]


def start_locked(start_broker: StartBroker) -> Locked:
    """Start it."""
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
