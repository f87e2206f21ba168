"""Asks for transactional ids until it is proved that each coordinator would have named them.

Two things hide an id from Kafka's list of transactions, both without an error:

- Rights: what this client may not Describe is left out. Which ids rights tell apart is known where
  brokers have Kafka's own authorizer, from all ACLs of transactional ids: each literal name, what
  begins with each prefix, and the rest. An id of each kind is asked for. Whoever is refused none of
  them may describe every id, whatever its name in ACLs is, be it through an ACL, as one of
  `super.users`, or by `allow.everyone.if.no.acl.found`.
- A move: while a partition of `__transaction_state` moves to another broker, the old coordinator
  has forgotten its transactions, and the new one answers for a moment as though it had none. Of an
  id that nobody has a coordinator says so only when it has read the partition of that id
  (TransactionStateManager.getTransactionState): so one is asked for in each partition, before a
  list and after it, and then a second list. Through all that the leader epochs and the ACLs must
  stay what they were.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final
from uuid import uuid4

from eo_listener.client_config.acls import command_for
from eo_listener.kafka.java_transactions import Coordinators, JavaTransactions
from eo_listener.kafka.state_partitions import state_partition
from eo_listener.model.errors import KafkaError, few
from eo_listener.model.kafka_errors import PASSING

NOT_FOUND: Final = "TRANSACTIONAL_ID_NOT_FOUND"
NO_ID_RIGHT: Final = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
NO_TOPIC_RIGHT: Final = "TOPIC_AUTHORIZATION_FAILED"
STATE_TOPIC: Final = "__transaction_state"

_NO_CLUSTER_RIGHT: Final = "CLUSTER_AUTHORIZATION_FAILED"
_WITH_ACLS: Final = frozenset(
    {
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "kafka.security.authorizer.AclAuthorizer",
    }
)
_LITERAL: Final = "LITERAL:"
_PREFIXED: Final = "PREFIXED:"
_EVERY: Final = "*"
_SETTLED: Final = 10.0  # seconds in which a move should be over
_PAUSE: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedProducers:
    """Transactional ids by producer id; `incomplete` is why one may not have been named."""

    ids: Mapping[int, str]
    incomplete: str | None


class _Doubt(Exception):  # noqa: N818  # an answer, not an error
    """Why nothing is proved; `passing` where it may be another time."""

    def __init__(self, why: str, *, passing: bool = False) -> None:
        self.why = why
        self.passing = passing
        super().__init__(why)


class CoordinatorProof:
    """Asks the coordinators of one cluster. `timeout` bounds each question, in seconds.

    `properties` are librdkafka's, and `java` has the same in its own names.
    """

    def __init__(
        self, properties: Mapping[str, str], java: JavaTransactions, timeout: float
    ) -> None:
        self._properties = dict(properties)
        self._java = java
        self._timeout = timeout

    def named(self, producers: Collection[int]) -> NamedProducers:
        """Ask under which ids these are known; what passes is waited for, some seconds."""
        ids: dict[int, str] = {}
        deadline = time.monotonic() + _SETTLED
        while True:
            try:
                self._ask(producers, ids)
            except _Doubt as doubt:
                why, passing = doubt.why, doubt.passing
            except KafkaError as error:
                why, passing = str(error), error.code in PASSING
            else:
                return NamedProducers(ids=ids, incomplete=None)
            if not passing or time.monotonic() >= deadline:
                return NamedProducers(ids=ids, incomplete=why)
            time.sleep(_PAUSE)

    def _ask(self, producers: Collection[int], ids: dict[int, str]) -> None:
        """Add to `ids` what is named. Raises _Doubt and KafkaError."""
        before = self._coordinators()
        if not before.epochs:
            return  # no transaction has ever been coordinated here
        _require_known(before)
        stem = _stem(before.patterns)
        for _ in range(2):
            self._require_answers(before, stem)
            ids |= self._java.transactional_ids(set(producers) - ids.keys(), self._timeout)
            if set(producers) <= ids.keys():
                return
        if self._coordinators() != before:
            raise _Doubt(
                "coordinators of transactions have moved, or ACLs have changed, while they were "
                "asked",
                passing=True,
            )

    def _coordinators(self) -> Coordinators:
        try:
            return self._java.coordinators(self._timeout)
        except KafkaError as error:
            if error.code == _NO_CLUSTER_RIGHT:
                right = self._right(["Describe", "Describe_Configs"], "--cluster")
                raise _Doubt(
                    "whether this client may describe every transactional id cannot be found out: "
                    f"it may not read the cluster's ACLs and its brokers' settings ({right})"
                ) from error
            if error.code == NO_TOPIC_RIGHT:
                right = self._right(["Describe"], "--topic", STATE_TOPIC)
                raise _Doubt(f"{error} ({right})") from error
            raise

    def _require_answers(self, now: Coordinators, stem: str) -> None:
        """Describe one id of each kind and partition, which must not be refused."""
        made_up = list(_one_a_partition(stem, len(now.epochs)))
        of_acls = {_an_id(pattern, stem): pattern for pattern in now.patterns}
        answer = self._java.describe_all([*made_up, *of_acls], self._timeout)
        errors = {name: one for name, one in answer.errors.items() if one.code != NOT_FOUND}
        refused = [name for name, one in errors.items() if one.code == NO_ID_RIGHT]
        if any(name in refused for name in made_up):
            right = self._right(["Describe"], "--transactional-id", _EVERY)
            raise _Doubt(f"this client may not describe every transactional id ({right})")
        if refused:
            kept = few(sorted(of_acls[name] for name in refused))
            raise _Doubt(
                f"ACLs keep transactional ids from this client ({kept}): ask as one of the "
                "cluster's super.users, or give it the right to Describe these too"
            )
        for other in errors.values():
            raise other
        if len(answer.found) + len(answer.errors) < len({*made_up, *of_acls}):
            raise _Doubt("a coordinator of transactions left an id out of its answer")

    def _right(self, operations: list[str], *resource: str) -> str:
        words = " and ".join(one.replace("_", "") for one in operations)
        acl = command_for(self._properties, operations, resource)
        return f"give it the right to {words}, as an administrator of the cluster: {acl}"


def _require_known(now: Coordinators) -> None:
    lost = sum(epoch is None for epoch in now.epochs)
    if lost:
        raise _Doubt(
            f"{lost} partitions of {STATE_TOPIC} have no leader, so nobody knows what they have",
            passing=True,
        )
    others = set(now.authorizers) - _WITH_ACLS
    if others:
        raise _Doubt(
            f"rights on this cluster are not Kafka's own ACLs, but those of {few(sorted(others))}: "
            "whether it keeps some transactional ids from this client cannot be read"
        )


def _stem(patterns: Collection[str]) -> str:
    """How made-up ids begin: as no ACL of a prefix does, and no id of anybody."""
    first = {name.removeprefix(_PREFIXED)[:1] for name in patterns if name.startswith(_PREFIXED)}
    return next(chr(one) for one in count(ord("0")) if chr(one) not in first) + uuid4().hex


def _one_a_partition(stem: str, partitions: int) -> Iterator[str]:
    """A made-up id in each partition of `__transaction_state`."""
    left = set(range(partitions))
    for number in count():
        if not left:
            return
        name = f"{stem}-{number}"
        partition = state_partition(name, partitions)
        if partition in left:
            left.remove(partition)
            yield name


def _an_id(pattern: str, stem: str) -> str:
    """An id to which an ACL's pattern is the nearest one."""
    if pattern.startswith(_PREFIXED):
        return pattern.removeprefix(_PREFIXED) + stem
    name = pattern.removeprefix(_LITERAL)
    return stem if name == _EVERY else name
