"""A preflight names the rights that a client lacks, before the first commit fails for them."""

from __future__ import annotations

import shlex

import pytest

from eo_listener.preflight.findings import CheckFinding, Level, to_act_on
from tests.preflight.checking import check
from tests.secured import PASSWORDS, Secured
from tests.topics import Topics, unique

pytestmark = pytest.mark.kafka


def check_as_bob(secured: Secured, group: str, topic: str) -> list[CheckFinding]:
    found = check(secured.broker, group, topics=(topic,), properties=secured.as_bob())
    assert PASSWORDS["bob"] not in str(found)
    return found


def test_missing_rights_are_named_until_they_are_given(secured: Secured) -> None:
    """Each with the command that gives it; Describe alone is not enough; then all is fine."""
    group = unique("locked")
    topic = Topics(secured.broker.bootstrap_servers).create(partitions=1)
    found = check_as_bob(secured, group, topic)
    by_name = {one.about: one for one in to_act_on(found)}
    assert by_name.keys() == {f"topic {topic}", f"group {group}"}
    assert {one.level for one in by_name.values()} == {Level.PROBLEM}
    assert by_name[f"group {group}"].what == "User:bob may not Read"
    command = shlex.split(by_name[f"group {group}"].advice.partition(": ")[2])
    assert command[-6:] == [
        "--allow-principal", "User:bob", "--operation", "Read", "--group", group,
    ]  # fmt: skip
    assert any("CLUSTER_AUTHORIZATION" in one.what for one in found)

    secured.allow("bob", "TOPIC", topic, "DESCRIBE")
    secured.allow("bob", "GROUP", group, "DESCRIBE")
    lacking = to_act_on(check_as_bob(secured, group, topic))
    assert {one.about: one.what for one in lacking} == {
        f"topic {topic}": "User:bob may not Read",
        f"group {group}": "User:bob may not Read",
    }

    secured.allow("bob", "TOPIC", topic, "READ")
    secured.allow("bob", "GROUP", group, "READ")
    assert not to_act_on(check_as_bob(secured, group, topic))
