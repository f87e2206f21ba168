"""What a sink finds in its target is reported with the batch that it was found in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eo_listener.model.events import BatchApplied
from eo_listener.model.ledger import Unexpected, UnexpectedRecords
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.testing import MemorySink
from tests.foreach_batch.test_batch_runner import stage_of

FOUND = UnexpectedRecords(Unexpected.FOREIGN, 2, {TopicPartition("out", 0): OffsetRange(3, 9)})


class Finding(MemorySink):
    """A store in which others write too."""

    def apply(self, frame: Any, entry: Any, plan: Any) -> Any:
        return replace(super().apply(frame, entry, plan), unexpected=(FOUND,))


def test_what_a_sink_finds_is_reported() -> None:
    """In the event of the batch."""
    stage = stage_of(Finding())
    stage.run(0)
    (applied,) = stage.events
    assert isinstance(applied, BatchApplied)
    assert applied.unexpected == (FOUND,)
