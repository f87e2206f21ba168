"""A query that works while it is audited raises no alarm, whatever moves between two readings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eo_listener.audit.position_finding import PositionFinding
from eo_listener.audit.positions import (
    CheckpointPositions,
    LedgerPositions,
)
from tests.audit.made_up import (
    TP,
    Held,
    checkpoint,
    group,
    head,
    held,
    judged,
    ledger,
    log,
    logged,
    stored,
)


class Query:
    """A query at work: each call is its next step, one of planned, applied, committed, grouped."""

    def __init__(self, *, by_sink: bool) -> None:
        self.by_sink = by_sink
        self.end = self.planned = self.applied = self.done = self.held = self.start = 0
        self.batch = -1
        self._step = 0

    def step(self) -> None:
        step, self._step = self._step, (self._step + 1) % 5
        if step == 0:
            self.end += 7
        elif step == 1:
            self.start, self.planned, self.batch = self.planned, self.end, self.batch + 1
        elif step == 2:
            self.applied = self.planned
            if self.by_sink:
                self.held = self.planned
        elif step == 3:
            self.done = self.planned
        else:
            self.held = self.done

    def group(self) -> Held:
        return held(self.held, by_sink=self.by_sink)

    def committed(self) -> CheckpointPositions:
        batch = self.batch if self.done == self.planned else self.batch - 1
        if batch < 0:
            return checkpoint(committed=None, planned=None)
        return checkpoint(self.done, committed=batch, planned=batch)

    def with_planned(self, found: CheckpointPositions) -> CheckpointPositions:
        """As `CheckpointReading`: the next batch is known if nothing was committed meanwhile."""
        if self.batch < 0 or self.batch == found.committed:
            return found
        now: dict[str, Any] = {"planned": self.batch, "ahead": [self.planned]}
        if self.committed().committed != found.committed:
            return replace(found, next_batch=None, planned=self.batch, ahead={TP: self.planned})
        done = [] if found.committed is None else [self.start]
        return checkpoint(*done, committed=found.committed, **now)

    def ledger(self) -> LedgerPositions:
        start = self.start if self.applied == self.planned else self.applied - 7
        return ledger(replace(head(self.applied, start=start), batch_id=self.batch))


def findings(query: Query, pauses: tuple[int, ...], *, settle: bool) -> list[PositionFinding]:
    """Read in the order of `audit.positions`, with so many steps of the query between."""

    def work(number: int) -> None:
        for _ in range(pauses[number]):
            query.step()

    work(0)
    before = query.group()
    work(1)
    found = query.committed()
    work(2)
    of_ledger = stored(query.ledger())
    work(3)
    found = query.with_planned(found)
    work(4)
    logs = logged(log(end=query.end))
    work(5)
    after = query.group()
    while settle and after[TP].offset < found.done.get(TP, 0):  # as the command waits
        query.step()
        after = query.group()
    groups = {"groups": (group(before, after),)}
    return list(judged(logs | {"checkpoint": found} | groups | of_ledger).to_act_on)


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
