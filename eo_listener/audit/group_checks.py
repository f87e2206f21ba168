"""Compares each group with its query, and checks whether another consumer can take it over.

Reads and writes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from eo_listener.audit.advice import Advice
from eo_listener.audit.intervals import size
from eo_listener.audit.position_finding import (
    Findings,
    Harm,
    PositionFinding,
    PositionFindingKind,
    listed,
    single,
)
from eo_listener.audit.positions import (
    CheckpointPositions,
    Ends,
    GroupPositions,
    LedgerPositions,
    Positions,
    lowest,
)
from eo_listener.audit.source_checks import applied_by_all, commit_checkpoint, misplaced
from eo_listener.errors import counted, few
from eo_listener.model.check_finding import Severity
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.planned_batch import BATCHES
from eo_listener.offsets import OffsetRange, Position, TopicPartition

_ONLY_BACK: Final = (
    ". If the group was only moved back, nothing is lost, and the query's next commit moves it "
    "forward again"
)


def check_groups(positions: Positions, advice: Advice) -> Findings:
    """Yield the findings about each group."""
    done = durable(positions.checkpoint, positions.ledgers, positions.uncommitted)
    lacking = list(_lacking_topics(positions, done, advice))
    yield from lacking
    for group in positions.groups:
        check = _GroupCheck(positions, group, done, advice)
        findings = list(check.findings())
        yield from findings
        if not lacking and not any(finding.matters for finding in findings):
            yield PositionFindingKind.AGREED.finding(
                check.about,
                f"{len(group.after)} partitions, none behind and none ahead of the query"
                if done
                else f"{len(group.after)} partitions",
            )


def durable(
    checkpoint: CheckpointPositions | None,
    ledgers: Sequence[LedgerPositions],
    uncommitted: Collection[str] = (),
) -> Ends:
    """Return the offsets that a group may hold.

    They are the end offsets of the checkpoint's committed batch or, without a checkpoint, the
    offsets that every ledger has. The result leaves out the `uncommitted` topics, whose offsets the
    query commits to no group.
    """
    ends: Ends = {}
    if checkpoint is not None and checkpoint.exists:
        ends = checkpoint.done
    elif len({ledger.key.query for ledger in ledgers}) == 1:  # else nobody knows whose group it is
        ends = lowest(ledger.ends for ledger in ledgers)
    return {tp: at for tp, at in ends.items() if tp.topic not in uncommitted}


def _lacking_topics(positions: Positions, done: Ends, advice: Advice) -> Findings:
    """Yield a finding for topics that the query reads, but for which no group holds an offset.

    Each topic may have its own group, so the check needs all groups together. If a group is empty,
    the topic may belong to that group, and the check reports nothing.
    """
    groups = positions.groups
    if not groups or not all(group.topics for group in groups):
        return
    topics_with_offsets = frozenset[str]().union(*(group.topics for group in groups))
    read = frozenset(tp.topic for tp in done.keys() - misplaced(positions) if tp != BATCHES)
    lacking = sorted(read - topics_with_offsets)
    if lacking:
        group = groups[0].name
        topics = read if len(groups) == 1 else frozenset(lacking)
        yield PositionFindingKind.GROUP_LACKS.finding(
            f"group {few(group.name for group in groups)}",
            f"the group holds no offset of topic {few(lacking)}, which the query has read",
            cause="the offsets expired, were deleted or were never committed; or another "
            "group, not named here, holds them",
            fix="name every group that the query commits to (-g GROUP) and each topic that "
            "it commits to no group (--uncommitted TOPIC); or, to commit to this group: "
            f"{commit_checkpoint(positions, advice, group, rewind=False, topics=topics)}",
        )


class _GroupCheck:
    def __init__(
        self, positions: Positions, group: GroupPositions, done: Ends, advice: Advice
    ) -> None:
        self._positions = positions
        self._group = group
        self._advice = advice
        self._incomparable = misplaced(positions)
        topics = group.topics
        self._replaced = {tp for tp in done if tp != BATCHES} & self._incomparable
        self._done = {
            tp: at
            for tp, at in done.items()
            if (tp.topic in topics or not topics) and tp not in self._incomparable
        }
        self._applied = applied_by_all(positions)
        self.about = f"group {group.name}"

    def findings(self) -> Findings:
        group = self._group
        if not group.after and not group.before:
            yield self._empty()
            return
        if group.unstable:
            yield PositionFindingKind.GROUP_UNSTABLE.finding(
                self.about,
                "a transaction that commits to it is open",
                fix=self._advice.cluster.show_transactions("--group", group.name),
            )
        # Reasons not to commit come first: a commit would take the group from another program, or
        # remove a trace of it.
        first = [*self._never_read()] or [*self._never_committed()]
        yield from first
        if not first:
            yield from self._writers()
            yield from self._lacking()
            yield from self._ahead()
            yield from self._behind()

    def _commit(self, *, rewind: bool) -> str:
        name, topics = self._group.name, self._positions.committed_to(self._group)
        return commit_checkpoint(self._positions, self._advice, name, rewind=rewind, topics=topics)

    def _empty(self) -> PositionFinding:
        checkpoint = self._positions.checkpoint
        if checkpoint is not None and checkpoint.has_done_nothing:
            return PositionFindingKind.GROUP_EMPTY.finding(
                severity=Severity.NOTE,
                about=self.about,
                what="it holds no offsets: the query has committed no batch yet",
            )
        if self._replaced and not self._done:
            return PositionFindingKind.GROUP_EMPTY.finding(
                severity=Severity.NOTE,
                about=self.about,
                what="it holds no offsets: Kafka deletes them with their topic; the query "
                "commits the new topic's offsets as soon as it reads that topic",
            )
        expiry = (
            "it had members: all its offsets expire together, offsets.retention.minutes after "
            "the last member leaves"
            if self._group.had_members
            else "its offsets expired (offsets.retention.minutes after the last commit), it was "
            "deleted, nothing was ever committed, it is misspelled, or -b does not name the "
            "query's cluster"
        )
        return PositionFindingKind.GROUP_EMPTY.finding(
            self.about,
            "it holds no offsets: no lag can be shown, and a consumer that starts from it begins "
            "at auto.offset.reset",
            cause=expiry,
            fix=self._commit(rewind=False),
        )

    def _never_read(self) -> Findings:
        """Yield a finding for records between another program's position and the query's start."""
        checkpoint = self._positions.checkpoint
        own = None if checkpoint is None else checkpoint.query_id
        if checkpoint is None or own is None or checkpoint.damaged:
            return
        unread: dict[bool, dict[TopicPartition, OffsetRange]] = {}  # by whether that is certain
        for tp, start in checkpoint.began.items():
            at, writer = self._group.after.get(tp), self._group.writer(tp)
            is_own = writer is not None and writer.query_id and own.startswith(writer.query_id)
            if at is None or is_own or tp in self._incomparable:
                continue
            # A group that was moved back had been beyond its offset.
            held = max(at.offset, (writer and writer.rewound_from) or 0)
            offset = max(held, self._applied.get(tp, 0), self._log_start(tp))
            if offset < start and tp.topic not in self._positions.uncommitted:
                unread.setdefault(writer is not None, {})[tp] = OffsetRange(offset, start)
        for is_certain, ranges in unread.items():
            group = self._group.name
            again = (
                "read them with a batch query (spark.read, with startingOffsets and endingOffsets)"
                if any(checkpoint.done.get(tp, 0) > offsets.until for tp, offsets in ranges.items())
                else f"stop the query, then {self._advice.begin_from_group(group)}"
            )
            yield PositionFindingKind.NEVER_READ.finding(
                self.about,
                "the query began to read beyond the offsets that another program has committed: "
                f"the {size(ranges.values()):,} records in between "
                f"{'were' if is_certain else 'may have been'} not read: {listed(ranges)}",
                cause="the query has a new checkpoint, and its startingOffsets (latest by default) "
                "are not the group's offsets; or the group is not this query's"
                + ("" if is_certain else "; or somebody has moved the group back since"),
                fix=f"check that {group} is the query's group; if it is, {again}"
                + ("" if is_certain else _ONLY_BACK),
                ranges=single(ranges),
                harm=None if is_certain else Harm.UNPROVED,
            )

    def _never_committed(self) -> Findings:
        """Yield a finding if no query of eo_listener has committed to the group."""
        writers = self._writers_of_topics().values()
        if self._done and writers and not any(writers):
            at = {tp: self._group.after[tp].offset for tp in self._done if tp in self._group.after}
            other = {
                tp: OffsetRange(*sorted((offset, self._done[tp])))
                for tp, offset in at.items()
                if offset != self._done[tp]
            }
            differ = f", and differ from the query's: {listed(other)}" if other else ""
            yield PositionFindingKind.GROUP_FOREIGN.finding(
                self.about,
                "no query has committed to it: its offsets are those of another program" + differ,
                cause="the name is wrong: this is the group of a consumer; or the group was "
                "changed with Kafka's own tool after the query's last commit",
                fix="check that -g names the query's group; if it does, the query's next commit "
                "goes to it, unless the group is ahead of the query: then move it back (group "
                "rewind)",
                severity=Severity.PROBLEM,
                ranges=single(other),
            )

    def _writers_of_topics(self) -> dict[TopicPartition, CommitMetadata | None]:
        """Return the writer of each of the group's offsets in the topics that the query reads."""
        topics = {tp.topic for tp in self._done}
        return {
            tp: self._group.writer(tp)
            for tp in self._group.after
            if not topics or tp.topic in topics
        }

    def _log_start(self, tp: TopicPartition) -> int:
        source = self._positions.source
        return source.logs[tp].start if source is not None and tp in source.logs else 0

    def _writers(self) -> Findings:
        writers = self._writers_of_topics()
        strange = sorted(tp for tp, writer in writers.items() if writer is None)
        own = (self._positions.checkpoint and self._positions.checkpoint.query_id) or None
        ids = {writer.query_id for writer in writers.values() if writer is not None}
        foreign = sorted(
            {
                str(writer)
                for writer in writers.values()
                if writer is not None and own is not None and not own.startswith(writer.query_id)
            }
        )
        if not foreign and len(ids) > 1:
            foreign = sorted({str(writer) for writer in writers.values() if writer is not None})
        # If only a group was read, and no query of eo_listener commits to it, a consumer may be its
        # owner.
        has_query = bool(ids or self._positions.checkpoint or self._positions.ledgers)
        if foreign or (strange and has_query):
            writer_names = [*foreign, *(["another program"] if strange else [])]
            yield PositionFindingKind.GROUP_FOREIGN.finding(
                self.about,
                f"other programs commit to it: {few(writer_names)}",
                cause="a second driver, another query or a tool uses the same group, and the "
                "last commit wins; or this query has a new checkpoint and has not yet "
                "passed the earlier commits",
                fix="stop the other program, or give each query a group of its own; then "
                f"{self._commit(rewind=bool(self._ahead_of_query()))}",
            )
        marked = sorted(
            tp for tp, writer in writers.items() if writer is not None and writer.withheld
        )
        if marked:
            yield PositionFindingKind.GROUP_WITHHELD.finding(
                self.about,
                f"the listener's guard withholds newer offsets of {few(map(str, marked))}",
                cause="a batch did not continue where the previous batch ended",
                fix="look for GuardViolation in the log; to accept it, start the listener "
                'with guard="warn"',
            )

    def _lacking(self) -> Findings:
        lacking = sorted(self._done.keys() - self._group.after.keys())
        if lacking:
            yield PositionFindingKind.GROUP_LACKS.finding(
                self.about,
                f"it holds no offset of {few(map(str, lacking))}, which the query has read",
                cause="these offsets expired or were deleted, or were never committed",
                fix=self._commit(rewind=False),
            )

    def _ahead_of_query(self) -> dict[TopicPartition, OffsetRange]:
        ahead = {}
        for tp, at in self._group.before.items():
            limit = self._limit(tp, at)
            if limit is not None and at.offset > limit:
                ahead[tp] = OffsetRange(limit, at.offset)
        return ahead

    def _ahead(self) -> Findings:
        ahead = self._ahead_of_query()
        if ahead:
            yield PositionFindingKind.GROUP_AHEAD.finding(
                self.about,
                f"it is ahead of the query: {listed(ahead)}; a consumer that "
                f"starts from it skips {size(ahead.values()):,} records",
                cause="another driver or tool has committed, or the checkpoint or the store was "
                "restored from an older copy",
                fix=self._commit(rewind=True),
                ranges=single(ahead),
            )

    def _limit(self, tp: TopicPartition, at: Position) -> int | None:
        """Return the greatest offset that the group may hold for `tp`, or None if that is unknown.

        A sink commits offsets in the transaction of its batch, and Spark commits the batch in the
        checkpoint only after that. So offsets that every ledger has count as processed, even if the
        checkpoint is an older copy. If the checkpoint is damaged, the greatest offset is unknown.
        """
        checkpoint, writer = self._positions.checkpoint, CommitMetadata.parse(at.metadata)
        done = self._done.get(tp)
        if done is None or (checkpoint is not None and checkpoint.damaged):
            return None
        if checkpoint is not None and writer is not None and writer.by_sink:
            done = max(done, checkpoint.ahead.get(tp, done))
        return max(done, self._applied.get(tp, done))

    def _behind(self) -> Findings:
        behind = {
            tp: OffsetRange(self._group.after[tp].offset, done)
            for tp, done in self._done.items()
            if tp in self._group.after and self._group.after[tp].offset < done
        }
        withheld = {
            tp
            for tp in behind
            if (writer := self._group.writer(tp)) is not None and writer.withheld
        }
        behind = {tp: offsets for tp, offsets in behind.items() if tp not in withheld}
        if behind:
            yield PositionFindingKind.GROUP_BEHIND.finding(
                self.about,
                f"it is behind the query: {listed(behind)}; its lag appears "
                f"{size(behind.values()):,} records too high",
                cause=_who_moved_back(map(self._group.writer, behind))
                or "no listener is running, or its commits fail (see the query's log)",
                fix=self._commit(rewind=False),
                ranges=single(behind),
            )


def _who_moved_back(writers: Iterable[CommitMetadata | None]) -> str:
    """Return the cause of a group that was moved back, or an empty text if it was not."""
    back = {str(writer) for writer in writers if writer and writer.rewound_from is not None}
    return f"it was moved back: {few(sorted(back))}" if back else ""


def check_drained(
    positions: Positions,
    group: GroupPositions,
    unread: Collection[TopicPartition],
    findings: Sequence[PositionFinding],
    advice: Advice,
    *,
    moving: bool,
) -> PositionFinding:
    """Return GROUP_DRAINED with the next consumer's start, or GROUP_NOT_DRAINED with the obstacles.

    `unread` are partitions with records between the group's offset and the last stable offset, and
    `findings` are the findings of the audit. `moving` is True if the previous reading differs from
    this one.
    """
    about = f"group {group.name}"
    obstacles = list(_obstacles(positions, group, unread))
    obstacles += [f"{each.about}: {each.kind.value}" for each in findings if each.matters]
    if moving:
        obstacles.append("the last two readings differ: something still moves")
    if obstacles:
        text = "not drained: " + "; ".join(obstacles)
        return PositionFindingKind.GROUP_NOT_DRAINED.finding(
            about,
            text,
            fix="stop the producers, wait for lag 0 and for the end of open batches and "
            "transactions, then stop the consumers; other findings have a fix of their own",
        )
    offsets = {tp: position.offset for tp, position in group.after.items()}
    return PositionFindingKind.GROUP_DRAINED.finding(
        about,
        f"drained: {counted(len(offsets), 'partition')} without lag, no open transaction, no "
        "members; read twice",
        fix=advice.begin_after(group.name, offsets),
    )


def has_moved(before: Positions, now: Positions, group: str) -> bool:
    """Return True if two readings differ in the group, its logs, the checkpoint or the ledgers.

    The function does not compare the logs of topics for which the group holds no offsets.
    """
    return _still(before, group) != _still(now, group)


def _still(positions: Positions, name: str) -> tuple[object, ...]:
    group = next((group for group in positions.groups if group.name == name), None)
    topics = frozenset[str]() if group is None else group.topics
    logs = {} if positions.source is None else positions.source.logs
    logs = {tp: log for tp, log in logs.items() if tp.topic in topics}
    return group, positions.checkpoint, positions.stores, logs


def _obstacles(
    positions: Positions, group: GroupPositions, unread: Collection[TopicPartition]
) -> Iterator[str]:
    logs = {} if positions.source is None else positions.source.logs
    logs = {tp: log for tp, log in logs.items() if tp.topic in group.topics}
    if not group.after:
        yield "the group holds no offsets"
    if unread:
        lag = sum(logs[tp].stable - group.after[tp].offset for tp in unread)
        yield f"{counted(lag, 'offset')} to read in {few(map(str, sorted(unread)))}"
    never = sorted(tp for tp in logs if tp not in group.after)
    if never:
        yield f"nothing is committed for {few(map(str, never))}"
    still_open = sorted(tp for tp, log in logs.items() if log.stable < log.end)
    if still_open:
        yield f"a transaction is open in {few(map(str, still_open))}"
    if group.unstable:
        yield "a transaction that commits to the group is open"
    checkpoint = positions.checkpoint
    if checkpoint is not None and checkpoint.planned != checkpoint.committed:
        yield f"batch {checkpoint.planned} of the checkpoint is planned and not committed"
    elif checkpoint is not None and checkpoint.committed is None:
        yield "no batch of the checkpoint is committed"
    if group.error is not None:
        yield f"its members are unknown: Kafka does not describe the group ({group.error})"
    if group.members:
        yield f"the group has members: {few(group.members)}"
