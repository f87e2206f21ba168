"""Computes Spark's `startingOffsets` from an origin's offsets and the logs' bounds, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Final, NoReturn

from eo_listener.errors import (
    GapError,
    PartitionVanishedError,
    RegressionError,
    SettingsError,
    TopicRecreatedError,
    few,
)
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import OffsetRange, TopicPartition

EARLIEST: Final = -2  # as Spark spells them (JsonUtils)
LATEST: Final = -1


class Policy(Enum):
    """How to treat a partition whose position is missing or out of range."""

    EARLIEST = "earliest"
    LATEST = "latest"
    FAIL = "fail"


class Recreated(Enum):
    """How to treat a topic that was recreated after the origin's offsets were stored."""

    FAIL = "fail"
    EARLIEST = "earliest"


_POSITIONS: Final = MappingProxyType({Policy.EARLIEST: EARLIEST, Policy.LATEST: LATEST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The offsets from which a query is to start: the next offset of each partition.

    `label` names the origin in error texts. `topic_ids` has the topic id of each partition, if
    known.
    """

    label: str
    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[TopicPartition, str] = field(default_factory=lambda: MappingProxyType({}))

    def where(self, keep: Callable[[TopicPartition], bool]) -> Origin:
        """Return the origin with only the offsets of partitions for which `keep` is true."""
        return replace(self, offsets={tp: at for tp, at in self.offsets.items() if keep(tp)})


def choose(
    origin: Origin,
    partitions: Collection[TopicPartition],
    logs: GroupSnapshot,
    *,
    missing: Policy,
    out_of_range: Policy,
    recreated: Recreated = Recreated.FAIL,
) -> dict[TopicPartition, int]:
    """Return the offset at which each of `partitions` begins; -2 is the earliest, -1 the latest.

    `partitions` are all partitions that the topics have now. A topic whose id differs, or that
    lacks partitions of the origin, counts as recreated; the function nevertheless uses a position
    that is known to belong to the new topic. Raises TopicRecreatedError and PartitionVanishedError
    unless `recreated` accepts the topic (it never accepts a topic that no longer exists); raises
    GapError, RegressionError and SettingsError if a position needs a policy and that policy is
    "fail".
    """
    existing = sorted(tp for tp in partitions if tp in logs.starts)
    starts: dict[TopicPartition, int] = {}
    current = _of_now(origin, logs)
    # The origin already has positions in these new topics: missing partitions belong to the old
    # topics.
    current_topics = {tp.topic for tp in current}
    outdated = {tp for tp in _of_older(origin, origin.offsets, logs) if tp.topic in current_topics}
    origin = origin.where(lambda tp: tp in existing or tp not in outdated)
    if recreated is Recreated.EARLIEST:
        replaced = _recreated_topics(origin, existing, logs) & {tp.topic for tp in existing}
        starts = {tp: EARLIEST for tp in existing if tp.topic in replaced and tp not in current}
        origin = origin.where(lambda tp: tp.topic not in replaced or tp in current)
        existing = [tp for tp in existing if tp not in starts]
    _refuse_recreated(origin, existing, logs)
    _refuse_vanished(origin, existing)
    lost: dict[TopicPartition, OffsetRange] = {}
    beyond: dict[TopicPartition, OffsetRange] = {}
    for tp in existing:
        offset = origin.offsets.get(tp)
        if offset is None:
            starts[tp] = _missing(origin, tp, missing)
        elif logs.starts[tp] <= offset <= logs.ends[tp]:
            starts[tp] = offset
        elif out_of_range is not Policy.FAIL:
            starts[tp] = _POSITIONS[out_of_range]
        elif offset < logs.starts[tp]:
            lost[tp] = OffsetRange(offset, logs.starts[tp])
        else:
            beyond[tp] = OffsetRange(logs.ends[tp], offset)
    if beyond:
        _refuse_beyond(origin, beyond)
    if lost:
        raise GapError(
            f"Kafka no longer has the records after {origin.label}: {_listed(lost)}",
            ranges=lost,
            cause="retention or a tool deleted these records before they were read",
            fix='To continue without them, give out_of_range="earliest"; a sink with a '
            'ledger then also needs exactly_once(..., on_gap="accept")',
        )
    return starts


def choose_for_group(
    origin: Origin,
    partitions: Collection[TopicPartition],
    covered: Collection[TopicPartition],
    logs: GroupSnapshot,
    *,
    missing: Policy | None,
    out_of_range: Policy,
    recreated: Recreated = Recreated.FAIL,
) -> dict[TopicPartition, int]:
    """Return the offsets to commit to a group, chosen by the rules of `choose`.

    A group can only hold real offsets, so "earliest" and "latest" mean the current start and end of
    the log. If the origin has no offset for a partition, but the group has one (`covered`), the
    group keeps its offset. If neither has an offset, `missing` decides; if `missing` is None, the
    result leaves out the partition. Raises the errors of `choose`.
    """
    wanted = [
        tp
        for tp in partitions
        if tp in origin.offsets or (missing is not None and tp not in covered)
    ]
    chosen = choose(
        origin,
        wanted,
        logs,
        missing=missing or Policy.FAIL,
        out_of_range=out_of_range,
        recreated=recreated,
    )
    ends = {EARLIEST: logs.starts, LATEST: logs.ends}
    return {tp: ends[at][tp] if at in ends else at for tp, at in chosen.items()}


def _missing(origin: Origin, tp: TopicPartition, policy: Policy) -> int:
    if policy is Policy.FAIL:
        raise SettingsError(
            f"{origin.label} has no position for {tp}",
            cause="the partition was added later, or never read",
            fix='Give missing="earliest" to read it from its beginning, or missing="latest" '
            "to skip what it holds now",
        )
    return _POSITIONS[policy]


def _recreated_topics(
    origin: Origin, existing: Collection[TopicPartition], logs: GroupSnapshot
) -> set[str]:
    gone = origin.offsets.keys() - set(existing)
    return {tp.topic for tp in (*_of_older(origin, existing, logs), *gone)}


def _of_now(origin: Origin, logs: GroupSnapshot) -> set[TopicPartition]:
    """Return the partitions whose positions are known to belong to the topic that exists now."""
    ids = ((tp, origin.topic_ids.get(tp)) for tp in origin.offsets)
    return {tp for tp, was in ids if was is not None and was == logs.topic_ids.get(tp.topic)}


def _of_older(
    origin: Origin, partitions: Collection[TopicPartition], logs: GroupSnapshot
) -> dict[TopicPartition, OffsetRange]:
    """Return the positions that belong to another topic of the same name, as ranges from 0."""
    wrong = {}
    for tp in partitions:
        was, now = origin.topic_ids.get(tp), logs.topic_ids.get(tp.topic)
        if tp in origin.offsets and was is not None and now is not None and was != now:
            wrong[tp] = OffsetRange(0, origin.offsets[tp])
    return wrong


def _refuse_recreated(
    origin: Origin, partitions: Collection[TopicPartition], logs: GroupSnapshot
) -> None:
    wrong = _of_older(origin, partitions, logs)
    if wrong:
        raise TopicRecreatedError(
            f"{origin.label} belongs to an older topic of the same name: {_listed(wrong)}",
            ranges=wrong,
            cause="the topic was deleted and recreated, so the offsets now name other records",
            fix="To read the new topic from its beginning while the other topics continue, give "
            'recreated="earliest", and write with exactly_once(..., on_recreated="restart")',
        )


def _refuse_vanished(origin: Origin, partitions: Collection[TopicPartition]) -> None:
    gone = sorted(origin.offsets.keys() - set(partitions))
    if gone:
        ranges = {tp: OffsetRange(origin.offsets[tp], origin.offsets[tp]) for tp in gone}
        raise PartitionVanishedError(
            f"Kafka lacks partitions for which {origin.label} has offsets: {_listed(ranges)}",
            ranges=ranges,
            cause="the topic was deleted or recreated with fewer partitions, or this is "
            "another cluster",
            fix="Check the bootstrap servers; name the topics that the new query reads in topics=; "
            'for a recreated topic, give recreated="earliest"',
        )


def _refuse_beyond(origin: Origin, beyond: Mapping[TopicPartition, OffsetRange]) -> NoReturn:
    raise RegressionError(
        f"{origin.label} lies beyond the end of the log: {_listed(beyond)}",
        ranges=beyond,
        cause="the topic was recreated, its log was truncated (an unclean election), or this is "
        "another cluster",
        fix='Find out which of these happened; out_of_range="latest" continues at the end of '
        "the log. A sink refuses offsets that its ledger has: give the query another "
        'name, exactly_once(..., name="...")',
    )


def _listed(ranges: Mapping[TopicPartition, OffsetRange]) -> str:
    return few(f"{tp} {offset_range}" for tp, offset_range in ranges.items())
