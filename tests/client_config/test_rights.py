"""A right that is missing is named with the command that gives it."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from eo_listener.client_config.admin_commands import right_to_add
from eo_listener.events import CommitFailed
from eo_listener.offsets import TopicPartition
from tests.observers import events as made_up

GROUP, TOPIC, ID = (
    f"{kind}_AUTHORIZATION_FAILED" for kind in ("GROUP", "TOPIC", "TRANSACTIONAL_ID")
)


def failed(code: str, group: str = "g") -> CommitFailed:
    """Three partitions failed, one of them for another reason."""
    errors = {
        TopicPartition("u", 0): code,
        TopicPartition("t", 0): code,
        TopicPartition("v", 0): "NOT_COORDINATOR",
    }
    return replace(made_up.failed(code), group=group, errors=errors)


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (GROUP, "--operation Read --group g"),
        (TOPIC, "--operation Read --topic t --topic u"),
        (ID, "--operation Write --operation Describe --transactional-id eo-listener-g"),
    ],
)
def test_the_command(code: str, arguments: str) -> None:
    """The command names the client, the operations and the resource."""
    command = f"kafka-acls --bootstrap-server k:9092 --add --allow-principal User:al {arguments}"
    told = right_to_add(failed(code), "User:al")
    assert told is not None
    assert told.startswith("allow User:al to ")
    assert told.endswith(command)


def test_a_client_whose_name_is_unknown() -> None:
    """With a client certificate the principal is unknown here, so the command has a placeholder."""
    assert "--allow-principal User:CLIENT " in str(right_to_add(failed(GROUP), None))


def test_a_name_that_a_shell_would_run() -> None:
    """A hostile name of a group stays one word of the command."""
    told = right_to_add(failed(GROUP, group="g; rm -rf $(x)"), "User:al'ice")
    assert told is not None
    assert shlex.split(told.partition("cluster: ")[2])[-1] == "g; rm -rf $(x)"
    assert "User:al'ice" in shlex.split(told.partition("cluster: ")[2])


@pytest.mark.parametrize(
    "code", ["UNKNOWN_MEMBER_ID", "_TRANSPORT", "CLUSTER_AUTHORIZATION_FAILED"]
)
def test_other_failures_have_no_such_command(code: str) -> None:
    """An error that no ACL solves comes without an ACL command."""
    assert right_to_add(failed(code), "User:al") is None
