"""The events of one group, built from positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eo_listener.commit.groups.partition_state import Discrepancy, RetryState
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.events import (
    CommitAbandoned,
    CommitFailed,
    CommitRefused,
    Committed,
    CommitterFenced,
    Event,
    ForeignCommit,
    GroupOffsetsMissing,
    Refusal,
    TopicRecreated,
)
from eo_listener.model.kafka_errors import explain
from eo_listener.model.offsets import Offsets, Position, TopicPartition
from eo_listener.model.protocols import GroupSnapshot

Positions = Mapping[TopicPartition, Position]

_REFUSALS = {
    Discrepancy.WITHHELD_BEFORE: Refusal.WITHHELD_BEFORE,
    Discrepancy.BEYOND_LOG_END: Refusal.BEYOND_LOG_END,
    Discrepancy.BELOW_GROUP: Refusal.BELOW_GROUP,
}


@dataclass(frozen=True, slots=True)
class GroupEvents:
    """Builds the events of one group of one cluster."""

    cluster: str
    group: str

    def committed(self, confirmed: Positions, seconds: float) -> Committed:
        """Kafka confirmed these."""
        return Committed(
            cluster=self.cluster, group=self.group, offsets=as_offsets(confirmed), seconds=seconds
        )

    def failed(
        self,
        errors: Mapping[TopicPartition, str],
        retry_states: Mapping[TopicPartition, RetryState],
        now: float,
        detail: str | None,
        *,
        persistent_after: float,
    ) -> CommitFailed:
        """A request failed for these partitions, each of which is retried."""
        soonest = min(errors, key=lambda tp: retry_states[tp].not_before)
        retry_state = retry_states[soonest]
        reason = explain(errors[soonest])
        if retry_state.persistent is not None and now - retry_state.since >= persistent_after:
            reason = retry_state.persistent
        return CommitFailed(
            cluster=self.cluster,
            group=self.group,
            errors=errors,
            code=errors[soonest],
            cause=reason.cause,
            fix=reason.fix,
            detail=detail,
            refused=reason.lasting,
            unknown=any(explain(error).outcome_unknown for error in errors.values()),
            failures=retry_state.failures,
            retry_in=retry_state.not_before - now,
        )

    def refused(
        self,
        refusal: Refusal,
        offered: Positions,
        held: Mapping[TopicPartition, int],
        writer: CommitMetadata | None = None,
    ) -> CommitRefused:
        """These are not sent."""
        return CommitRefused(
            cluster=self.cluster,
            group=self.group,
            refusal=refusal,
            offered=as_offsets(offered),
            held=Offsets(held),
            writer=writer,
        )

    def fenced(self, code: str, abandoned: Offsets) -> CommitterFenced:
        """Another committer has taken over."""
        reason = explain(code)
        return CommitterFenced(
            cluster=self.cluster,
            group=self.group,
            code=code,
            cause=reason.cause,
            fix=reason.fix,
            offsets=abandoned,
        )

    def recreated(self, topic: str, was: str, now: str, waiting: Offsets) -> TopicRecreated:
        """A topic is not the one it was."""
        return TopicRecreated(
            cluster=self.cluster, group=self.group, topic=topic, was=was, now=now, offsets=waiting
        )

    def abandoned(self, offsets: Offsets) -> CommitAbandoned:
        """These are given up."""
        return CommitAbandoned(cluster=self.cluster, group=self.group, offsets=offsets)

    def discrepancies(
        self,
        discrepancy: Discrepancy,
        partitions: list[TopicPartition],
        snapshot: GroupSnapshot,
        wanted: Positions,
        ours: Positions,
    ) -> Iterable[Event]:
        """Report a discrepancy that a snapshot showed.

        `wanted` is what was to be committed to them, `ours` what had been confirmed.
        """
        if discrepancy is Discrepancy.VANISHED:
            lost = Offsets({tp: ours[tp].offset for tp in partitions})
            yield GroupOffsetsMissing(cluster=self.cluster, group=self.group, offsets=lost)
        elif discrepancy is Discrepancy.BY_SINK:
            yield self.committed({tp: snapshot.held[tp] for tp in partitions}, 0.0)
        elif discrepancy is Discrepancy.FOREIGN:
            yield from self._foreign_commits(partitions, snapshot, ours)
        else:
            beyond = discrepancy is Discrepancy.BEYOND_LOG_END
            held = {
                tp: snapshot.ends[tp] if beyond else snapshot.held[tp].offset for tp in partitions
            }
            first = snapshot.held.get(min(partitions))
            writer = CommitMetadata.parse(first.metadata) if first and not beyond else None
            yield self.refused(
                _REFUSALS[discrepancy], {tp: wanted[tp] for tp in partitions}, held, writer
            )

    def _foreign_commits(
        self, partitions: list[TopicPartition], snapshot: GroupSnapshot, ours: Positions
    ) -> Iterable[Event]:
        by_writer: dict[tuple[str, str] | None, list[TopicPartition]] = {}
        for tp in partitions:
            found = CommitMetadata.parse(snapshot.held[tp].metadata)
            by_writer.setdefault((found.query_id, found.run_id) if found else None, []).append(tp)
        for theirs in by_writer.values():
            writer = CommitMetadata.parse(snapshot.held[theirs[0]].metadata)
            mine = CommitMetadata.parse(ours[theirs[0]].metadata)
            yield ForeignCommit(
                cluster=self.cluster,
                group=self.group,
                found=as_offsets({tp: snapshot.held[tp] for tp in theirs}),
                ours=as_offsets({tp: ours[tp] for tp in theirs}),
                writer=writer,
                zombie=writer is not None and mine is not None and writer.query_id == mine.query_id,
            )


def as_offsets(positions: Positions) -> Offsets:
    """Positions without their metadata."""
    return Offsets({tp: position.offset for tp, position in positions.items()})
