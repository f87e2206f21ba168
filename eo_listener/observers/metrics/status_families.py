"""The metrics of `eo-listener serve`, which it reads from a cluster, not from a driver.

Their names begin with `eo_listener_status_`, so that no sum counts a group twice if a driver
reports the group too. docs/how-to/serve.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

from eo_listener.model.lag import PartitionLag
from eo_listener.model.lag_window import LagVerdict
from eo_listener.observers.metrics.counters import GROUP
from eo_listener.observers.metrics.families import (
    SeriesBudget,
    encodable,
    gauge,
    log_ends,
    of_groups,
)
from eo_listener.offsets import TopicPartition

PARTITIONS: Final = 10_000
_GROUPS: Final = 2_000
_PREFIX: Final = "status_consumergroup"


class GroupNumbers(NamedTuple):
    """The numbers of one group; `seconds` is the age of its oldest unread record.

    `read` is False if the group could not be read.
    """

    group: str
    rows: Sequence[PartitionLag]
    seconds: float | None
    verdict: LagVerdict | None
    read: bool


class AuditNumbers(NamedTuple):
    """The results of an audit; `at` is its start, in seconds since the epoch."""

    at: float
    lost: int
    doubled: int
    to_act_on: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusNumbers:
    """The current numbers of a cluster, read at the time `at`.

    `at` is in seconds since the epoch, or None if the offsets are unknown. Then `groups` is empty,
    since readers would mistake old numbers for current ones.
    """

    cluster: str
    at: float | None = None
    groups: Sequence[GroupNumbers] = ()


def exposed(numbers: StatusNumbers, *, partitions: int = PARTITIONS) -> bytes:
    """Return the text for Prometheus. Topics beyond `partitions` partitions have only sums."""
    return _text(status_families(numbers, partitions))


def exposed_audit(audit: AuditNumbers | None) -> bytes:
    """Return an audit's text for Prometheus, which follows the text of `exposed`.

    The text is separate, because audits have their own interval.
    """
    return _text(audit_families(audit))


def _text(families: Iterator[Metric]) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Drawn(list(families)))
    return generate_latest(registry)


def status_families(numbers: StatusNumbers, partitions: int) -> Iterator[Metric]:
    """Yield all metric families, including empty families, because alerts query them."""
    return map(encodable, _draw(numbers, partitions))


class _Drawn(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def _draw(numbers: StatusNumbers, partitions: int) -> Iterator[Metric]:
    yield gauge(
        "status_known",
        "1 while Kafka's offsets are known, 0 while they cannot be read.",
        (),
        [((), int(numbers.at is not None))],
    )
    yield gauge(
        "status_timestamp_seconds",
        "Time at which these numbers were read, in seconds since the epoch.",
        (),
        [((), numbers.at)],
    )
    groups = numbers.groups[:_GROUPS]
    yield gauge(
        "status_groups_not_read",
        "Groups that Kafka refused, or that exceed the limit on groups.",
        (),
        [((), sum(not group.read for group in groups) + len(numbers.groups) - len(groups))],
    )
    budget = SeriesBudget(partitions)
    yield from _offsets(numbers.cluster, groups, budget)
    yield from _judged(numbers.cluster, groups)
    yield _log_ends(numbers.cluster, groups, SeriesBudget(partitions))
    yield gauge(
        "status_partitions_without_series",
        "Partitions without a series of their own, because of the limit on series.",
        (),
        [((), budget.beyond)],
    )


def _offsets(
    cluster: str, groups: Sequence[GroupNumbers], budget: SeriesBudget
) -> Iterator[Metric]:
    return of_groups(
        _PREFIX,
        (
            "Committed offset, by partition.",
            "Log end offset minus committed offset.",
            "Sum of the committed offsets of a topic.",
        ),
        (((cluster, group.group), _committed(group), _ends(group)) for group in groups),
        budget,
    )


def _committed(group: GroupNumbers) -> dict[TopicPartition, int]:
    return {row.partition: row.committed for row in group.rows if row.committed is not None}


def _ends(group: GroupNumbers) -> dict[TopicPartition, int]:
    return {row.partition: row.log_end for row in group.rows if row.log_end is not None}


def _judged(cluster: str, groups: Sequence[GroupNumbers]) -> Iterator[Metric]:
    yield gauge(
        f"{_PREFIX}_lag_seconds",
        "Age of the oldest record that the group has not read, in seconds.",
        GROUP,
        (((cluster, group.group), group.seconds) for group in groups),
    )
    yield gauge(
        f"{_PREFIX}_verdict",
        "1 for the verdict of the group, 0 for the others.",
        (*GROUP, "verdict"),
        (
            ((cluster, group.group, verdict.value), int(group.verdict is verdict))
            for group in groups
            if group.verdict is not None
            for verdict in LagVerdict
        ),
    )


def _log_ends(cluster: str, groups: Sequence[GroupNumbers], budget: SeriesBudget) -> Metric:
    ends: dict[TopicPartition, int] = {}
    for group in groups:
        ends.update(_ends(group))
    return log_ends(
        "status_topic_partition_current_offset",
        "Log end offset, by partition.",
        [(cluster, ends)],
        budget,
    )


def audit_families(audit: AuditNumbers | None) -> Iterator[Metric]:
    """Yield the metric families of an audit, including empty families."""
    for name, meaning, value in (
        ("timestamp_seconds", "Time at which the audit began.", audit and audit.at),
        (
            "complete",
            "1 if the audit could read everything that it was asked for.",
            audit and int(audit.complete),
        ),
        ("lost_records", "Records that are lost or not applied.", audit and audit.lost),
        ("doubled_records", "Records that were applied twice.", audit and audit.doubled),
        ("findings", "Findings of the audit to act on.", audit and audit.to_act_on),
    ):
        yield gauge(f"status_audit_{name}", meaning, (), [((), value)])
