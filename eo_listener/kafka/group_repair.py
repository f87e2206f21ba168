"""Repairs a group's offsets: checks that nobody uses the group, commits, and reads it back.

- The repair refuses a group with members. The broker, too, refuses a commit to such a group
  (UNKNOWN_MEMBER_ID).
- A query in `mode="simple"` or `"transactional"` is not a member. Only its commits reveal such a
  query. So the repair reads the group twice, a few seconds apart, and requires the same offsets and
  metadata. It does not notice a query that commits nothing in that time. But nothing is lost: the
  query commits its own position again with its next batch, or within `recommit_interval`. It
  reports the repair's commit as foreign if it reads the group before that.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from typing import Final

from eo_listener.commit.groups.group_change import GroupChange, GroupOutcome
from eo_listener.errors import InUseError, KafkaError, SettingsError, few
from eo_listener.kafka.cluster_describer import ClusterDescriber
from eo_listener.kafka.logs import ClusterReader
from eo_listener.kafka.simple_groups import SimpleGroups
from eo_listener.model.kafka_errors import COORDINATOR_MOVES
from eo_listener.offsets import Position, TopicPartition

_EMPTY: Final = frozenset({None, "Empty", "Dead"})
_TIMEOUT: Final = 15.0  # seconds for each part, including the wait while a coordinator moves
_PAUSE: Final = 0.5


class GroupRepair:
    """Repairs one group of a cluster. Only one thread may use it.

    Raises SettingsError for properties that librdkafka does not accept. Every method may raise
    KafkaError.
    """

    def __init__(self, properties: Mapping[str, str], group: str) -> None:
        self._properties = dict(properties)
        self._group = group
        self._reader = ClusterReader(properties)

    def offsets(self) -> Mapping[TopicPartition, Position]:
        """Return the group's offsets in all topics; wait for transactions that change them."""
        return self._reader.group(self._group, stable=True)

    def refuse_members(self) -> None:
        """Raise InUseError if the group has members.

        Raises SettingsError if the group is not a consumer group.
        """
        with closing(ClusterDescriber(self._properties)) as describer:
            facts = describer.require_group(self._group)
        if facts.protocol is not None:
            raise SettingsError(
                f"group {self._group} is not a consumer group; its protocol is {facts.protocol}",
                fix="Name a consumer group",
            )
        if facts.members or facts.state not in _EMPTY:
            named = few(facts.members)
            raise InUseError(
                f"group {self._group} is in use: state {facts.state}, {len(facts.members)} "
                f"members ({named or 'none named'})",
                cause="a consumer or a query with mode='member' has joined it",
                fix="Stop it, and wait until its session ends",
            )

    def refuse_moving(self, change: GroupChange, seconds: float) -> None:
        """Raise InUseError if the group's offsets have changed since `change` was planned.

        If they have not changed, the method waits `seconds`, and raises InUseError if they change
        in that time.
        """
        self._refuse_moved(change, "since the plan was made")
        time.sleep(seconds)
        self._refuse_moved(change, f"within {seconds:g} s")

    def commit(self, change: GroupChange) -> GroupOutcome:
        """Commit `change`, and read the group back.

        Raises KafkaError if the group cannot be read back: its offsets are then unknown.
        """
        failed: dict[str, str] = {}
        with closing(SimpleGroups(self._properties)) as store:
            for part in change.parts():
                failed |= self._commit(store, part)
        return GroupOutcome(change=change, group_positions=self._read_back(), errors=failed)

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()

    def _read_back(self) -> Mapping[TopicPartition, Position]:
        try:
            return self.offsets()
        except KafkaError as error:
            raise KafkaError(
                f"cannot tell if group {self._group} holds all offsets that were committed to it: "
                "they cannot be read back",
                code=error.code,
                cause=error.problem,
                fix="When Kafka answers again, repeat the command: it starts from the "
                "group's offsets at that time",
            ) from error

    def _commit(
        self, store: SimpleGroups, part: Mapping[TopicPartition, Position]
    ) -> dict[str, str]:
        """Commit part of a change; return texts about the last errors, by Kafka's error name."""
        deadline = time.monotonic() + _TIMEOUT
        while True:
            errors: dict[str, str] = {}
            try:
                answer = store.commit(self._group, part, timeout=_TIMEOUT)
                for tp, code in answer.items():
                    if code is not None:
                        errors.setdefault(code, f"{code} for {tp}")
            except KafkaError as error:
                errors = {error.code: error.problem}
            if not errors.keys() & COORDINATOR_MOVES or time.monotonic() >= deadline:
                return errors
            time.sleep(_PAUSE)

    def _refuse_moved(self, change: GroupChange, when: str) -> None:
        moved = change.moved_since(self.offsets())
        if moved:
            raise InUseError(
                f"group {self._group} has moved {when}: {few(moved)}",
                cause="a query or a tool commits to it",
                fix="Stop the query; `eo-listener status` shows which one it is",
            )
