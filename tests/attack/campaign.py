"""One attack on the committer: offers go in, one request of its client is met by a fault.

What must hold whatever happens: the group ends at the last offer, it never holds more than was
offered, it never goes back, an offer never waits, and `close` ends in its time. The one exception
(see docs/explanation/guarantees.md): a commit that its client has given up may arrive after its
successor, in a transaction as part of a later one of the same producer. The group is then back
until it is committed again, `Backoff.repeat_after` seconds later at the latest; a commit that is
held up for longer than that takes it back until the query moves on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.commit.groups.policy import Backoff, Policy
from eo_listener.events import CommitFailed, Committed, Event, Observers
from eo_listener.kafka.group_stores import open_groups
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Position, TopicPartition
from tests.attack.offsets_topic import GroupCommit, OffsetsTopic, Violation, audit
from tests.attack.proxy import Proxy
from tests.attack.replies import ERRORS
from tests.attack.wire_faults import Action, Armed, Cut, Drop, Duplicate, Hold, Moment, Refuse, Way
from tests.topics import unique

RETRY: Final = Backoff(
    first=0.05, longest=0.5, refused_first=0.1, refused_longest=0.5, repeat_after=6.0
)
POLICY: Final = Policy(snapshot_max_age=0.5)
# Shorter than the product's, so that a lost reply is noticed while the run lasts.
IMPATIENT: Final = {"socket.timeout.ms": "1000", "socket.connection.setup.timeout.ms": "1000"}
PACE: Final = 0.03  # seconds between two offers
STRIKE: Final = 90.0  # seconds for the request that is meant to come
# Seconds for the group to move on after a fault. In a transaction librdkafka's producer hangs now
# and then, and has to be replaced, which takes about 25 s.
RESUME: Final[Mapping[str, float]] = {"simple": 30.0, "member": 30.0, "transactional": 45.0}
CLOSE: Final = 5.0
SETTLED: Final = 5.0  # a transaction is answered before its marker is in the log
PROMPT: Final = 1.0  # an offer takes microseconds; other processes may hold the machine

LATE, VERY_LATE = "late request", "very late request"
FAULTS: Final[Mapping[str, Action]] = {
    "request lost": Drop(Way.REQUEST),
    "reply lost": Drop(Way.REPLY),
    "request slow": Hold(Way.REQUEST, 0.4),
    "reply slow": Hold(Way.REPLY, 0.4),
    LATE: Hold(Way.REQUEST),
    VERY_LATE: Hold(Way.REQUEST),
    "late reply": Hold(Way.REPLY, 2.5),
    "sent twice": Duplicate(),
    "cut before": Cut(Moment.BEFORE),
    "cut after": Cut(Moment.AFTER),
    "cut within": Cut(Moment.WITHIN),
}
_COORDINATOR = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
CODES: Final[Mapping[str, tuple[str, ...]]] = {
    "OffsetCommit": (*_COORDINATOR, "REQUEST_TIMED_OUT", "UNKNOWN_MEMBER_ID"),
    "OffsetFetch": (*_COORDINATOR, "UNSTABLE_OFFSET_COMMIT"),
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE", "GROUP_AUTHORIZATION_FAILED"),
    "Metadata": ("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"),
    "ListOffsets": ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION"),
    "TxnOffsetCommit": (*_COORDINATOR, "UNKNOWN_MEMBER_ID"),
    "AddOffsetsToTxn": (*_COORDINATOR, "CONCURRENT_TRANSACTIONS"),
    "InitProducerId": (*_COORDINATOR, "CONCURRENT_TRANSACTIONS"),
    "EndTxn": (*_COORDINATOR, "CONCURRENT_TRANSACTIONS"),
}
READING: Final = ("FindCoordinator", "OffsetFetch", "Metadata", "ListOffsets")
WRITING: Final[Mapping[str, tuple[str, ...]]] = {
    "simple": ("OffsetCommit",),
    "member": ("OffsetCommit",),
    "transactional": ("InitProducerId", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    mode: str
    api: str
    fault: str
    nth: int

    def __str__(self) -> str:
        return f"{self.mode}: {self.api} {self.fault}, time {self.nth}"

    @property
    def action(self) -> Action:
        return FAULTS.get(self.fault) or Refuse(ERRORS[self.fault])

    @property
    def may_go_back(self) -> bool:
        """Whether the declared limit covers it."""
        return self.fault in (LATE, VERY_LATE) and self.api in ("OffsetCommit", "TxnOffsetCommit")


def cases(mode: str, apis: Iterable[str], times: Iterable[int]) -> tuple[Case, ...]:
    return tuple(
        Case(mode=mode, api=api, fault=fault, nth=nth)
        for api in apis
        for fault in (*FAULTS, *CODES[api])
        for nth in times
        # A client that asks twice believes the second answer: no network gives it the first.
        if (api, fault) != ("InitProducerId", "sent twice")
    )


@dataclass(slots=True)
class Outcome:
    """The result of a case; `problems` is empty when all held."""

    case: Case
    struck: int = 0
    seen: int = 0
    commits: int = 0
    resumed: float = 0.0
    slowest_offer: float = 0.0
    closing: float = 0.0
    went_back: int = 0
    problems: list[str] = field(default_factory=list)
    trail: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        line = f"{self.case}: {self.struck} faults, {self.commits} commits, {self.went_back} back, "
        line += f"slowest offer {self.slowest_offer * 1000:.1f} ms, recovery {self.resumed:.1f} s"
        return "\n    ".join([line, *self.problems, *(self.trail if self.problems else ())])

    def require(self, holds: bool, problem: str) -> None:
        if not holds:
            self.problems.append(problem)


class Attack:
    """A committer whose client goes through a proxy, and a group of its own."""

    def __init__(self, case: Case, proxy: Proxy, offsets: OffsetsTopic, topic: str) -> None:
        self.outcome = Outcome(case)
        self._case, self._proxy, self._log = case, proxy, offsets
        self._partitions = [TopicPartition(topic, number) for number in range(3)]
        self._group = unique("attacked")
        self._patience = RESUME[case.mode]
        self._cluster = Cluster.from_properties({"bootstrap.servers": proxy.address, **IMPATIENT})
        self._started = time.monotonic()
        self._committed = 0.0  # when a commit was confirmed last
        self._confirmed = 0.0  # when one was for the first time after the fault
        self._delayed: frozenset[int] = frozenset()
        self._offers: list[tuple[float, int]] = []  # wall clock, offset
        self._committer = Committer(
            lambda cluster: open_groups(dict(cluster.properties), case.mode),
            observers=Observers(self._told),
            retry=RETRY,
            policy=POLICY,
        )

    def run(self) -> Outcome:
        """Do it all; the proxy is left without a fault."""
        self._proxy.forget_counts()
        armed = self._proxy.arm(self._case.api, self._case.action, nth=self._case.nth)
        try:
            self._attack(armed)
        finally:
            self._delayed = self._offsets_in(armed)
            self._proxy.disarm()
            started = time.monotonic()
            self._committer.close(CLOSE)
            self.outcome.closing = time.monotonic() - started
        self._judge()
        return self.outcome

    def _attack(self, armed: Armed) -> None:
        cut = started = time.monotonic()
        while not armed.fired and time.monotonic() < started + STRIKE:
            self._offer()
            # Makes the client ask again who the coordinator is; but let it come to something.
            if self._committed > cut and time.monotonic() > cut + 1.5:
                self._proxy.cut()
                cut = time.monotonic()
        self.outcome.require(armed.fired > 0, f"{self._case.api} was not sent often enough")
        struck = self._confirmed = time.monotonic()
        self.outcome.trail.append(f"{struck - self._started:6.2f} struck")
        reached = self._offers[-1][1]
        self._go_on(reached, struck)
        if self._case.fault in (LATE, VERY_LATE):
            self._be_late(armed)
        for _ in range(5):
            self._offer()
        self.outcome.require(self._committer.flush(self._patience), "the last flush failed")

    def _go_on(self, reached: int, struck: float) -> None:
        """Offer on until the group holds more than it could when the fault struck."""
        while time.monotonic() < struck + self._patience:
            self._offer()
            if self._committed <= struck:
                self._confirmed = time.monotonic()
            if min(self._held().values(), default=0) > reached:
                self.outcome.resumed = time.monotonic() - struck
                return
            waited = self._case.fault == LATE and time.monotonic() > struck + 2.5
            if waited and self._case.api != "OffsetCommit":
                return  # nothing moves before it is let go
        if self._case.fault not in (LATE, VERY_LATE):
            self.outcome.problems.append(f"nothing was committed within {self._patience} s")

    def _be_late(self, armed: Armed) -> None:
        """Let the held request go, after its successor and, if very late, after the repeat."""
        if self._case.fault == VERY_LATE:
            time.sleep(RETRY.repeat_after + 1.0)
        else:
            self.outcome.require(
                self._committer.flush(self._patience), "the flush before it failed"
            )
        last = self._offers[-1][1]
        armed.release()
        # On a machine that is held up it may be later than what the repeat is for.
        if self._case.fault == LATE and time.monotonic() < self._confirmed + RETRY.repeat_after:
            time.sleep(0.5)
            self._await_held(last, RETRY.repeat_after + 4.0)
            held = self._held()
            self.outcome.require(
                set(held.values()) == {last},
                f"not healed within {RETRY.repeat_after} s: {last} was confirmed, "
                f"the group holds {held}",
            )

    def _await_held(self, offset: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while set(self._held().values()) != {offset} and time.monotonic() < deadline:
            time.sleep(0.1)

    def _offer(self) -> None:
        offset = len(self._offers) + 1
        metadata = CommitMetadata.for_batch(
            name="attacked", query_id="q" * 36, run_id=self._group[-36:], batch_id=offset
        ).text()
        positions = {tp: Position(offset=offset, metadata=metadata) for tp in self._partitions}
        self._offers.append((time.time(), offset))
        started = time.monotonic()
        self._committer.offer(
            GroupOffsets(cluster=self._cluster, group=self._group, positions=positions)
        )
        took = time.monotonic() - started
        self.outcome.slowest_offer = max(self.outcome.slowest_offer, took)
        time.sleep(PACE)

    def _told(self, event: Event) -> None:
        """Keep what happened, to be read where something went wrong."""
        at = time.monotonic() - self._started
        what = type(event).__name__
        match event:
            case CommitFailed():
                what = f"{what} {event.code} {event.detail or ''}, again in {event.retry_in:.1f} s"
            case Committed():
                what = f"{what} {min(event.offsets.values())}"
                self._committed = time.monotonic()
        self.outcome.trail.append(f"{at:6.2f} {what}")

    def _held(self) -> dict[TopicPartition, int]:
        return self._log.held(self._group)

    def _judge(self) -> None:
        outcome, case = self.outcome, self._case
        counts = self._proxy.counts()
        outcome.seen = counts[case.api].seen if case.api in counts else 0
        outcome.struck = sum(count.faulted for count in counts.values())
        last = self._offers[-1][1]
        self._await_held(last, SETTLED)
        held = self._held()
        outcome.require(
            held == dict.fromkeys(self._partitions, last), f"{last} was offered, held is {held}"
        )
        commits = self._log.commits(self._group)
        outcome.commits = len(commits)
        violations = audit(commits, self._offered_before)
        outcome.went_back = len(violations)
        wrong = [one for one in violations if not self._declared(one)]
        outcome.problems += [str(one) for one in wrong]
        outcome.require(outcome.slowest_offer < PROMPT, f"an offer took {outcome.slowest_offer} s")
        outcome.require(outcome.closing < CLOSE + 2, f"close took {outcome.closing} s")

    def _declared(self, violation: Violation) -> bool:
        """Whether this is the very request that was late, in a mode that cannot refuse it."""
        late = self._case.may_go_back and violation.problem.startswith("goes back")
        return late and violation.commit.offset in self._delayed

    def _offsets_in(self, armed: Armed) -> frozenset[int]:
        """The offsets of the commits that the fault met."""
        if not self._case.may_go_back:
            return frozenset()
        return frozenset(
            part["CommittedOffset"]
            for request in armed.struck
            for topic in request.fields(self._proxy.messages)["Topics"]
            for part in topic["Partitions"]
        )

    def _offered_before(self, commit: GroupCommit) -> int:
        """The greatest offset that was offered when the broker wrote this commit."""
        until = commit.timestamp / 1000 + 0.002  # its clock is ours, in whole milliseconds
        return max((offset for at, offset in self._offers if at <= until), default=0)
