"""A query that works while it is audited raises no alarm, whatever moves between two readings."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from eo_listener.audit.advice import Advice
from eo_listener.audit.evidence import LogFacts
from eo_listener.audit.position_finding import PositionFinding
from eo_listener.audit.position_judge import judge_positions
from eo_listener.audit.positions import (
    CheckpointPositions,
    GroupPositions,
    LedgerPositions,
    Positions,
    SourcePositions,
    StorePositions,
)
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.model.offsets import OffsetRange, Position, TopicPartition

TP = TopicPartition("flights", 0)
QUERY_ID = "0f8c2a11-0000-4000-8000-000000000000"


class Query:
    """A query at work: each call is its next step, one of planned, applied, committed, grouped."""

    def __init__(self, *, by_sink: bool) -> None:
        self.by_sink = by_sink
        self.end = self.planned = self.applied = self.done = self.held = 0
        self.batch = -1
        self._step = 0

    def step(self) -> None:
        step, self._step = self._step, (self._step + 1) % 5
        if step == 0:
            self.end += 7
        elif step == 1:
            self.planned, self.batch = self.end, self.batch + 1
        elif step == 2:
            self.applied = self.planned
            if self.by_sink:
                self.held = self.planned
        elif step == 3:
            self.done = self.planned
        else:
            self.held = self.done

    def group(self) -> dict[TopicPartition, Position]:
        written = CommitMetadata.of(name="q", query_id=QUERY_ID, run_id="r" * 36, batch_id=1)
        text = replace(written, by_sink=self.by_sink).text()
        return {TP: Position(offset=self.held, metadata=text)}

    def committed(self) -> CheckpointPositions:
        batch = self.batch if self.done == self.planned else self.batch - 1
        number = batch if batch >= 0 else None
        ends = {TP: self.done} if number is not None else {}
        return CheckpointPositions(
            label="/c", query_id=QUERY_ID, committed=number, planned=number, done=ends, ahead=ends
        )

    def with_planned(self, found: CheckpointPositions) -> CheckpointPositions:
        if self.batch < 0 or self.batch == found.committed:
            return found
        return replace(found, planned=self.batch, ahead={TP: self.planned})

    def ledger(self) -> LedgerPositions:
        head = Head(
            range=OffsetRange(0, self.applied),
            topic_id="A",
            query_id=QUERY_ID,
            run_id="r",
            batch_id=self.batch,
        )
        return LedgerPositions(store="s", key=LedgerKey("t", "q"), heads={TP: head})


def findings(query: Query, pauses: tuple[int, ...], *, settle: bool) -> list[PositionFinding]:
    """Read in the order of `audit.positions`, with so many steps of the query between."""

    def work(number: int) -> None:
        for _ in range(pauses[number]):
            query.step()

    work(0)
    before = query.group()
    work(1)
    checkpoint = query.committed()
    work(2)
    ledger = query.ledger()
    work(3)
    checkpoint = query.with_planned(checkpoint)
    work(4)
    log = LogFacts(start=0, stable=query.end, end=query.end, topic_id="A")
    work(5)
    after = query.group()
    while settle and after[TP].offset < checkpoint.done.get(TP, 0):  # as the command waits
        query.step()
        after = query.group()
    positions = Positions(
        source=SourcePositions(servers="k", logs={TP: log}),
        checkpoint=checkpoint,
        groups=(GroupPositions(name="g", before=before, after=after),),
        stores=(StorePositions(store="s", ledgers=(ledger,)),),
    )
    return [one for one in judge_positions(positions, Advice()) if one.matters]


PAUSES = st.tuples(st.integers(10, 40), *[st.integers(0, 12)] * 5)


@given(pauses=PAUSES, by_sink=st.booleans())
def test_a_query_at_work_raises_no_alarm(pauses: tuple[int, ...], by_sink: bool) -> None:
    """Whatever it does between two readings, and whoever commits the group."""
    assert not findings(Query(by_sink=by_sink), pauses, settle=True)


def test_without_waiting_for_the_group_there_would_be_one() -> None:
    """What was just committed is in the group a moment later."""
    alarms = [
        findings(Query(by_sink=False), (10 + step, 0, 0, 0, 0, 0), settle=False)
        for step in range(5)
    ]
    assert any(alarms)


def test_another_order_would_raise_false_alarms() -> None:
    """A ledger that is read before the checkpoint seems to be behind it."""
    query = Query(by_sink=False)
    for _ in range(10):
        query.step()
    ledger = query.ledger()
    for _ in range(5):
        query.step()
    positions = Positions(
        checkpoint=query.committed(), stores=(StorePositions(store="s", ledgers=(ledger,)),)
    )
    assert [one.kind.value for one in judge_positions(positions, Advice()) if one.matters] == [
        "ledger behind"
    ]
