"""The rows of a batch without transactions, through a producer that is none."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest

from eo_listener.model.errors import PoisonRowError
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka.catalog import Target, Targets
from eo_listener.sinks.kafka.ordered_rows import OrderedRows
from eo_listener.sinks.kafka.unfenced_rows import RowsTarget
from eo_listener.testing.made_up_entries import entry_of, plan_of
from tests.sinks.kafka.frames import without_spark

PLAN = plan_of(entry_of({}, {TopicPartition("t", 0): OffsetRange(0, 3)}))
OUT = TopicPartition("out", 0)


class Producer:
    """Keeps what it is to send."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, topic: str, value: Any, **how: Any) -> None:
        self.sent.append(value)

    def flush(self) -> None:
        pass


def rows(*numbers: int) -> OrderedRows:
    table = pa.table({"number": pa.array(numbers), "value": pa.array(map(str, numbers))})
    return OrderedRows(table, PLAN, label="out", one_topic=True, identity=("number",))


def target(producer: Producer) -> RowsTarget:
    targets = Targets(topics={"out": Target(id="id", partitions=1)})
    return RowsTarget(cast(Any, producer), targets, "writer", 1)


def test_what_no_row_has_is_known_before_any_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the rows are there afterwards as before."""
    without_spark(monkeypatch)
    made, producer = rows(3, 1, 2), Producer()
    made.prepare()
    there = {f"[{number}]": (OUT, number) for number in (1, 2, 7)}
    assert made.absent(there) == {"[7]": (OUT, 7)}
    assert made.absent({}) == {}
    assert len(there) == 3
    assert made.write(target(producer), dict(there)) == 1
    assert producer.sent == ["3"]


def test_two_rows_of_one_identity_have_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways that the error names can be gone: no column of `id=` is changed without more."""
    without_spark(monkeypatch)
    with pytest.raises(PoisonRowError, match="two rows of one identity") as caught:
        rows(1, 2, 2).write(target(Producer()), {})
    assert "Drop one of them" in str(caught.value)
    assert 'on_repeated="accept"' in str(caught.value)
