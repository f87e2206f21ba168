"""The commands that create and change the topics of a sink, as an administrator types them."""

from __future__ import annotations

import shlex
from typing import Final

LEDGER_PARTITIONS: Final = 16
"""Of a ledger's topic. Only queries with a partition in common wait for each other."""


def create_topic(servers: str, topic: str) -> str:
    """Return the command for a topic of rows, whose number of partitions is the user's choice."""
    return f"{_create(servers, topic)} --partitions N"


def create_ledger(servers: str, topic: str) -> str:
    """Return the command for the topic of a ledger."""
    config = f"--config cleanup.policy=compact --partitions {LEDGER_PARTITIONS}"
    return f"{_create(servers, topic)} {config}"


def alter_topic(servers: str, topic: str, setting: str) -> str:
    """Return the command that gives a topic a `setting`, as name=value."""
    words = ["kafka-configs", "--bootstrap-server", servers, "--alter", "--topic", topic]
    return shlex.join([*words, "--add-config", setting])


def _create(servers: str, topic: str) -> str:
    return shlex.join(["kafka-topics", "--bootstrap-server", servers, "--create", "--topic", topic])
