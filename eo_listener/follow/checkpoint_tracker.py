"""Decides from each reading of a checkpoint what to commit and what to report.

This module does no I/O, and gets the time as an argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from eo_listener.commit.groups.group_offsets import GroupOffsets, combine, positions_by_topic
from eo_listener.commit.tracking.query_run import RECOMMIT_INTERVAL, is_due
from eo_listener.commit.tracking.sequence_guard import GuardMode, judge
from eo_listener.errors import StorageError
from eo_listener.events import Event, GuardViolation
from eo_listener.follow.config import FollowedCheckpoint
from eo_listener.follow.notices import ActiveNotices, Notice, NoticeKind
from eo_listener.model.commit_metadata import CommitMetadata, short_id
from eo_listener.offsets import Offsets
from eo_listener.spark.checkpoint.errors import FileFinding
from eo_listener.spark.checkpoint.log_files import BatchOffsets

RUN = "follow"  # in place of a run id: a sidecar sees no runs, and two sidecars are alike
INTERVAL = 5.0
_LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The contents of a checkpoint at one moment.

    `query_id` is None if there is no checkpoint, or if it could not be read; `durable` is None if
    no committed batch was read. `unreachable` is the error if the storage gave no answer.
    """

    query_id: str | None = None
    durable: BatchOffsets | None = None
    findings: tuple[FileFinding, ...] = ()
    unreachable: StorageError | None = None

    @property
    def absent(self) -> bool:
        """True if the storage answered that there is no checkpoint."""
        return self.query_id is None and not self.findings and self.unreachable is None


def plan(
    target: FollowedCheckpoint, query_id: str, batch: int, sources: Mapping[str, Offsets]
) -> tuple[tuple[GroupOffsets, ...], tuple[str, ...]]:
    """Return the commits of one batch's offsets, and the topics for which `target` has no group."""
    metadata = CommitMetadata.for_batch(
        name=target.name, query_id=query_id, run_id=RUN, batch_id=batch
    ).text()
    parts = []
    without: set[str] = set()
    for offsets in sources.values():
        for topic, positions in positions_by_topic(offsets, metadata).items():
            group = target.group(topic)
            if group is None:
                without.add(topic)
            else:
                parts.append(
                    GroupOffsets(
                        cluster=target.cluster,
                        group=group,
                        positions=positions,
                        owner=short_id(query_id),
                    )
                )
    return combine(parts), tuple(sorted(without))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The actions that follow from a reading.

    `withheld` are the commits that the guard withholds. If `recommit` is True, the committer
    commits all offsets again, even those already committed. `released` is the id of the query whose
    checkpoint is gone: its offsets no longer hold back other checkpoints with the same groups. If
    another query has `replaced` that query, the waiting offsets of that query are not committed
    either. `pause` is the time until the next reading, in seconds.
    """

    commits: tuple[GroupOffsets, ...] = ()
    withheld: tuple[GroupOffsets, ...] = ()
    recommit: bool = False
    events: tuple[Event, ...] = ()
    released: str | None = None
    replaced: bool = False
    pause: float


class CheckpointTracker:
    """Remembers the last reading of one checkpoint, and decides what each new reading changes.

    A reading may show a checkpoint in the middle of a change: a torn file, or a newest batch that
    is lower than before. Such a reading counts only if the next reading shows the same. With
    `final`, `on_reading` does not wait for the next reading.
    """

    def __init__(
        self,
        target: FollowedCheckpoint,
        shown: str,
        *,
        guard: GuardMode = GuardMode.WITHHOLD,
        interval: float = INTERVAL,
        recommit_interval: float = RECOMMIT_INTERVAL,
    ) -> None:
        self._target = target
        self._guard, self._interval, self._recommit_interval = guard, interval, recommit_interval
        self._notices = ActiveNotices(shown)
        self._query_id: str | None = None
        self._durable: BatchOffsets | None = None
        self._withheld: set[str] = set()
        self._recommitted_at: float | None = None
        self._unanswered = 0
        self._suspect: Reading | None = None

    def on_reading(self, reading: Reading, now: float, *, final: bool = False) -> Step:
        """Process a reading that was made at the time `now`, and return the resulting step."""
        if reading.unreachable is not None:
            return self._unreachable(reading.unreachable)
        self._unanswered = 0
        reached = self._notices.resolve(NoticeKind.UNREACHABLE, "can be read again")
        if not self.doubtful(reading):
            self._suspect = None
        elif not final and self._suspect != reading:
            self._suspect = reading
            return Step(events=reached, pause=self._interval)
        step = self._absent() if reading.absent else self._present(reading, now)
        return replace(step, events=(*reached, *step.events))

    def doubtful(self, reading: Reading) -> bool:
        """Return True if a reading may show the checkpoint in the middle of a change."""
        if reading.absent:
            return self._query_id is not None
        if not all(self._notices.holds(finding) for finding in reading.findings):
            return True
        return reading.query_id == self._query_id and self._went_back(reading.durable)

    def _went_back(self, durable: BatchOffsets | None) -> bool:
        last = self._durable
        if last is None or durable is None:
            return last is not None
        return durable.batch < last.batch or (durable.batch == last.batch and durable != last)

    def _unreachable(self, error: StorageError) -> Step:
        self._unanswered += 1
        longest = max(_LONGEST_PAUSE, self._interval)
        fix = f"{error.fix or 'check the storage'}; `follow` reads again, at growing intervals"
        return Step(
            # The driver's text may differ each time: request numbers, the file that it was reading.
            events=self._notices.report(
                NoticeKind.UNREACHABLE,
                error.problem,
                error.cause or "",
                fix,
                repeat_if_changed=False,
            ),
            pause=min(longest, self._interval * 2.0 ** min(self._unanswered, 10)),
        )

    def _absent(self) -> Step:
        if self._query_id is None:
            events = self._notices.report(
                NoticeKind.ABSENT,
                "no checkpoint exists here yet",
                "its query has not been started, or the location is wrong",
                "check the location; `follow` waits for it",
            )
            return Step(events=events, pause=self._interval)
        events = self._notices.report(
            NoticeKind.GONE,
            "it no longer exists",
            "it was deleted or moved",
            "nothing, if that was intended: its groups stay as they are, and `follow` waits for it",
        )
        self._recommitted_at = None  # if it is only moved away, all offsets are offered again
        return Step(events=events, released=self._query_id, pause=self._interval)

    def _present(self, reading: Reading, now: float) -> Step:
        events = [
            *self._notices.resolve(NoticeKind.ABSENT, "it exists now"),
            *self._notices.resolve(NoticeKind.GONE, "it exists again"),
            *self._notices.report_findings(reading.findings),
        ]
        if reading.query_id is None:
            return Step(events=tuple(events), pause=self._interval)
        before = self._query_id
        replaced = self._identify(reading.query_id)
        events += replaced
        step = self._advance(reading, now)
        return replace(
            step,
            events=(*events, *step.events),
            released=before if replaced else None,
            replaced=bool(replaced),
        )

    def _identify(self, query_id: str) -> tuple[Notice, ...]:
        """Remember the query id; return a notice if the checkpoint had a different id before."""
        before = self._query_id
        if before == query_id:
            return ()
        self._query_id, self._durable, self._recommitted_at = query_id, None, None
        self._withheld.clear()
        self._notices.forget(NoticeKind.NOTHING_DURABLE, NoticeKind.NO_KAFKA, NoticeKind.NO_GROUP)
        if before is None:
            return ()
        return (
            self._notices.notice(
                NoticeKind.REPLACED,
                f"it now belongs to another query: its id was {before} and is now {query_id}",
                "it was deleted, and a new query started with it",
                "nothing, if that was intended; to move groups back, restart with --on-rewind "
                "allow",
            ),
        )

    def _advance(self, reading: Reading, now: float) -> Step:
        """Return the step for the batch that is durable now, and remember that batch."""
        durable, last = reading.durable, self._durable
        back = self._went_back(durable)
        if back and reading.findings:
            # Perhaps only an older batch can be read. The group is ahead of it, and stays there.
            durable, back = last, False
        if durable is None:
            return Step(events=self._nothing(reading), pause=self._interval)
        first = self._recommitted_at is None
        recommit = not first and is_due(self._recommitted_at, now, self._recommit_interval)
        if durable == last and not (first or recommit):
            return Step(pause=self._interval)
        if first or recommit:
            self._recommitted_at = now
        events = self._start_notices(durable, last, back=back)
        violations = [] if back or last is None else self._judge(durable, last)
        step = self._commit(durable, marking=bool(violations) or recommit)
        self._durable = durable
        return replace(step, recommit=recommit, events=(*events, *violations, *step.events))

    def _nothing(self, reading: Reading) -> tuple[Notice, ...]:
        """Return the notice that the checkpoint has no committed batch, or no longer has any."""
        if reading.findings:
            return ()
        notices = self._notices.report(
            NoticeKind.NOTHING_DURABLE,
            "its query has not completed a batch yet",
            "it has just started, or has nothing to read",
            "nothing: `follow` reads the checkpoint again",
        )
        if self._durable is None:
            return notices
        self._durable = None
        return (
            self._notices.notice(
                NoticeKind.REWOUND,
                "it no longer has a committed batch",
                "somebody emptied its commits folder",
                "nothing, if that was intended: its groups stay until a batch is committed again",
            ),
        )

    def _start_notices(
        self, durable: BatchOffsets, last: BatchOffsets | None, *, back: bool
    ) -> tuple[Notice, ...]:
        """Return the notice that commits begin at the batch `durable`, or go back to it."""
        if back and last is not None:
            text = f"it went back from batch {last.batch} to batch {durable.batch}"
            if last.batch == durable.batch:
                text = f"its batch {last.batch} was rewritten with other offsets"
            notice = self._notices.notice(
                NoticeKind.REWOUND,
                text,
                "somebody restored or edited it",
                "nothing, if that was intended; with --on-rewind allow its groups go back too",
            )
            return (notice,)
        if last is not None:
            return ()
        self._notices.forget(NoticeKind.NOTHING_DURABLE)
        text = f"follows query {self._query_id} from batch {durable.batch}"
        if durable.continuous:
            text += ", which uses continuous processing: its batches are epochs"
        return (self._notices.notice(NoticeKind.FOLLOWING, text),)

    def _judge(self, durable: BatchOffsets, last: BatchOffsets) -> list[Event]:
        """Return the violations between two durable batches; the guard may withhold their sources.

        Skipped offsets cannot be detected: a checkpoint holds the ends of batches, but no starts.
        """
        if durable == last:
            return []
        before, ends = last.kafka(), durable.kafka()
        events: list[Event] = []
        for number, source in enumerate(durable.sources):
            comparable = source.id in before and source.id in ends
            if not comparable or source.id in self._withheld:
                continue
            violations = judge(before[source.id], None, ends[source.id])
            if not violations:
                continue
            withheld = self._guard is GuardMode.WITHHOLD
            if withheld:
                self._withheld.add(source.id)
            events.append(
                GuardViolation(
                    query=self._target.name or self._query_id or "",
                    run_id=RUN,
                    batch_id=durable.batch,
                    source=number,
                    violations=violations,
                    withheld=withheld,
                )
            )
        return events

    def _commit(self, durable: BatchOffsets, *, marking: bool) -> Step:
        """Return the commits of a batch; with `marking`, also those that the guard withholds."""
        assert self._query_id is not None  # noqa: S101  # `_present` has identified it; for mypy
        sources = durable.kafka()
        allowed = {name: ends for name, ends in sources.items() if name not in self._withheld}
        withheld = {name: ends for name, ends in sources.items() if name in self._withheld}
        events: list[Event] = []
        if not sources:
            events += self._notices.report(
                NoticeKind.NO_KAFKA,
                "its query reads nothing from Kafka, so there is nothing to commit",
                "none of its sources has offsets in Kafka's form",
                "remove it, or check the location",
            )
        commits, without_group = plan(self._target, self._query_id, durable.batch, allowed)
        if without_group:
            events += self._notices.report(
                NoticeKind.NO_GROUP,
                f"no group is named for {', '.join(without_group)}, so nothing is committed for it",
                "each named group is for another topic",
                "add -g TOPIC=GROUP, or -g GROUP for all the rest",
            )
        marks, _ = plan(self._target, self._query_id, durable.batch, withheld if marking else {})
        return Step(commits=commits, withheld=marks, events=tuple(events), pause=self._interval)
