"""A sink behind the proxy: batches are written, a fault meets one request, all is judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import QUERY, heads_of
from tests.attack.conftest import Attacked
from tests.attack.kafka_sink.batches import Batches, MakeFrame
from tests.attack.kafka_sink.cases import LATE, LEDGER, ROWS, VERY_LATE, Case
from tests.attack.kafka_sink.reader import Reader, wrong
from tests.attack.wire_faults import Armed, Request
from tests.groups import positions
from tests.sinks.kafka.records import is_settled
from tests.topics import unique

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
    target: str
    ledger: str
    group: str | None
    rows: dict[int, int] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def begun(
        cls, attacked: Attacked, make_frame: MakeFrame, *, group: bool, **more: Any
    ) -> Iterator[Course]:
        """Write the first batch, without a fault."""
        topics = attacked.topics
        source = topics.create("source", 1)
        target = topics.create("target", PARTITIONS)
        given = {
            "ledger_topic": unique("ledger"),
            "group": f"group-of-{source}" if group else None,
            "timeout": 4.0,
            **more,
        }
        options = {
            "kafka.bootstrap.servers": attacked.servers,
            "kafka.request.timeout.ms": "1000",
            "kafka.retry.backoff.ms": "20",
        }
        with (
            closing(KafkaSink(options, target, **given)) as sink,
            Reader(attacked.direct, target, PARTITIONS) as reader,
        ):
            course = cls(
                attacked=attacked,
                batches=Batches(sink=sink, source=TopicPartition(source, 0), size=SIZE),
                reader=reader,
                make_frame=make_frame,
                target=target,
                ledger=given["ledger_topic"],
                group=given["group"],
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
            with self._overtaken(fault):
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

    def check(self) -> None:
        """Fail where something is wrong, once nothing is on its way any more."""
        time.sleep(ARRIVED)
        seen = self.reader.seen(sum(self.rows.values()), SETTLED)
        assert wrong(seen, self.rows) == []
        servers = self.attacked.direct
        for topic in (self.target, self.ledger):
            assert is_settled(servers, topic, settle=SETTLED), f"a transaction is open in {topic}"
        assert self.batches.last is not None
        with closing(self._direct()) as sink:
            assert sink.applied(QUERY) == heads_of(self.batches.last)
        if self.group is not None:
            (position,) = positions(servers, self.group).values()
            assert position.offset == len(self.rows) * SIZE
        seen = self.reader.seen(0, 0)
        assert wrong(seen, self.rows) == []

    @contextmanager
    def _overtaken(self, fault: Armed) -> Iterator[None]:
        """Let go of what is held in the middle of the next batch."""

        def release(point: str) -> None:
            if point == "sink.rows-written":
                _let_go(fault)

        with hooked(release):
            yield

    def _choice(self, case: Case) -> Callable[[Request], bool] | None:
        wanted = {ROWS: self.target, LEDGER: self.ledger}.get(case.request)
        messages = self.attacked.proxy.messages

        def is_to(request: Request) -> bool:
            return any(one["Name"] == wanted for one in request.fields(messages)["TopicData"])

        return None if wanted is None else is_to

    def _direct(self) -> KafkaSink:
        options = {"kafka.bootstrap.servers": self.attacked.direct}
        return KafkaSink(options, self.target, ledger_topic=self.ledger)


def _let_go(fault: Armed) -> None:
    fault.release()
    time.sleep(ARRIVED)
