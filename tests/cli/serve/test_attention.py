"""Which groups somebody has to look at, and what is said of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eo_listener.cli.group_status import GroupStatus
from eo_listener.cli.serve.attention import GroupAlarm, alarm
from eo_listener.model.lag_window import LagVerdict
from eo_listener.model.typed_command import ClusterCommands
from tests.cli.serve.made_up import CLUSTER, SERVERS, group
from tests.documents.test_commands import require_typable


def raised(checkpoint: str | None = None, **others: Any) -> GroupAlarm | None:
    return alarm(group("a b", **others), CLUSTER, checkpoint)


@pytest.mark.parametrize("verdict", [None, LagVerdict.OK, LagVerdict.WARN])
def test_nobody_has_to_act_on_a_group_that_commits(verdict: LagVerdict | None) -> None:
    """Also where it is slow, which its card says, or there is no verdict yet."""
    assert raised(verdict=verdict) is None


@pytest.mark.parametrize(
    ("given", "kind", "command"),
    [
        ({"verdict": LagVerdict.STALL}, "STALL", "audit --checkpoint CHECKPOINT"),
        ({"verdict": LagVerdict.STOP}, "STOP", "audit --checkpoint CHECKPOINT"),
        ({"verdict": LagVerdict.REWIND}, "REWIND", "audit --checkpoint CHECKPOINT"),
        ({"withheld": True}, "withheld", "audit --checkpoint CHECKPOINT"),
        ({"offsets": ()}, "holds no offsets", "preflight"),
        ({"offsets": (), "error": "NOT_COORDINATOR"}, "not read", "preflight"),
    ],
)
def test_what_is_wrong_has_a_command(given: dict[str, Any], kind: str, command: str) -> None:
    """For this cluster and this group, quoted for a shell."""
    found = raised(**given)
    assert found is not None
    assert found.kind == kind
    assert found.commands == (f"eo-listener {command} -b {SERVERS} -g 'a b'",)


def test_a_source_that_is_withheld_is_named_whatever_the_verdict() -> None:
    """Its lag may be small; a few of its partitions are enough."""
    found = raised(offsets=(9,) * 5, withheld=True)
    assert found is not None
    assert found.what.endswith("offsets of flights-0, flights-1, flights-2 and 2 more")
    assert 'guard="warn"' in found.cause


def test_what_was_given_to_this_command_belongs_into_the_printed_ones() -> None:
    """A login into each, and what opens a checkpoint where one is read; each can be typed."""
    cluster = ClusterCommands(servers=SERVERS, client=True, storage=True)
    one = held_up("-odd's $name")
    found = alarm(one, cluster, "s3://bucket/c")
    unread = alarm(replace(one, error="GROUP_AUTHORIZATION_FAILED"), cluster, None)
    assert found is not None
    assert unread is not None
    typed = [*found.commands, *unread.commands]
    typed.append(cluster.typed(["status"], arguments=[one.group]))
    audit, *others = typed
    assert audit.endswith("(with the same -X and --storage)")
    assert all(command.endswith("(with the same -X)") for command in others)
    for command in typed:
        require_typable(command)


def held_up(name: str) -> GroupStatus:
    """A group that has stopped before an open transaction."""
    one = group(name, verdict=LagVerdict.STOP)
    return replace(one, rows=tuple(replace(row, stable_end=8) for row in one.rows))


def test_the_checkpoint_stands_in_the_command_where_it_is_known() -> None:
    """And transactions that hold readers up have a command of their own."""
    found = alarm(held_up("g"), CLUSTER, "/data/my checkpoint")
    assert found is not None
    assert found.commands == (
        f"eo-listener audit --checkpoint '/data/my checkpoint' -b {SERVERS} -g g",
        f"eo-listener txn list -b {SERVERS} --group g",
    )
