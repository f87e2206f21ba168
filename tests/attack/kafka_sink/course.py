"""A sink behind the proxy: batches are written, a fault meets one request, all is judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from eo_listener.offsets import TopicPartition
from eo_listener.testing.made_up_entries import QUERY, heads_of
from tests.attack.conftest import Attacked
from tests.attack.kafka_sink.batches import Batches, MakeFrame
from tests.attack.kafka_sink.cases import LATE, LEDGER, ROWS, VERY_LATE, Case
from tests.attack.kafka_sink.reader import Reader, wrong
from tests.attack.wire_faults import Armed, Refuse, Request
from tests.groups import positions
from tests.sinks.chapters.store import once
from tests.sinks.kafka.conftest import Place, place_at
from tests.sinks.kafka.records import is_settled

PARTITIONS = 2
SIZE = 20
SETTLED = 15.0  # seconds for what a request that was given up has left
ARRIVED = 0.3  # seconds for a late request to have its effect


@dataclass(kw_only=True)
class Course:
    """One sink through the proxy, and the reader of its topic, which does not come through it."""

    attacked: Attacked
    batches: Batches
    reader: Reader
    make_frame: MakeFrame
    place: Place
    group: str | None
    rows: dict[int, int] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def begun(
        cls, attacked: Attacked, make_frame: MakeFrame, *, group: bool, **more: Any
    ) -> Iterator[Course]:
        """Write the first batch, without a fault."""
        source = attacked.topics.create("source", 1)
        place = place_at(attacked.direct)
        moved = f"group-of-{source}" if group else None
        options = {
            "kafka.bootstrap.servers": attacked.servers,
            "kafka.request.timeout.ms": "1000",
            "kafka.retry.backoff.ms": "20",
        }
        sink = place.sink(options=options, group=moved, timeout=3.0, **more)
        with place.opened, Reader(attacked.direct, place.target, PARTITIONS) as reader:
            course = cls(
                attacked=attacked,
                batches=Batches(sink=sink, source=TopicPartition(source, 0), size=SIZE),
                reader=reader,
                make_frame=make_frame,
                place=place,
                group=moved,
            )
            course.write()
            yield course

    def write(self) -> int:
        """Write the next batch as a query would; return how many attempts it took."""
        number, attempts = self.batches.write(self.make_frame)
        self.rows[number] = self.batches.size
        return attempts

    def meet(self, case: Case) -> int:
        """Write batches of which one meets the fault; return the attempts that all took."""
        fault = self.attacked.proxy.arm(
            case.api, case.action, nth=case.nth, choice=self._choice(case)
        )
        attempts = self._started_again(case)
        assert fault.fired == 1, f"no {case.request} came"
        if case.fault == LATE:
            _let_go(fault)
        if case.fault == VERY_LATE:
            with once("sink.rows-written", lambda: _let_go(fault)):
                return attempts + self._started_again(case)
        return attempts + self._started_again(case)

    def _started_again(self, case: Case) -> int:
        """Write the next batch, by a second start of the query where the first may be stopped."""
        if case.may_stop is None:
            return self.write()
        try:
            return self.write()
        except case.may_stop:
            return self.write()

    def check(self, case: Case) -> None:
        """Fail if something is wrong, once nothing is on its way any more."""
        if not isinstance(case.action, Refuse):  # else nothing can come late
            time.sleep(ARRIVED)
        seen = self.reader.seen(sum(self.rows.values()), SETTLED)
        assert wrong(seen, self.rows) == []
        servers = self.attacked.direct
        for topic in (self.place.target, self.place.ledger):
            assert is_settled(servers, topic, settle=SETTLED), f"a transaction is open in {topic}"
        assert self.batches.last is not None
        assert self.place.sink().applied(QUERY) == heads_of(self.batches.last)
        if self.group is not None:
            (position,) = positions(servers, self.group).values()
            assert position.offset == len(self.rows) * SIZE
        seen = self.reader.seen(0, 0)
        assert wrong(seen, self.rows) == []

    def _choice(self, case: Case) -> Callable[[Request], bool] | None:
        wanted = {ROWS: self.place.target, LEDGER: self.place.ledger}.get(case.request)
        messages = self.attacked.proxy.messages

        def is_to(request: Request) -> bool:
            return any(one["Name"] == wanted for one in request.fields(messages)["TopicData"])

        return None if wanted is None else is_to


def _let_go(fault: Armed) -> None:
    fault.release()
    time.sleep(ARRIVED)
