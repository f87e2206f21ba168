"""What is said of a row that a store without dead letters does not take, without Spark."""

from __future__ import annotations

from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.kept_rows import poison_row


def test_a_row_is_named_by_all_of_its_origin_or_not_at_all() -> None:
    """Where one of topic, partition and offset is null, the others name no record."""
    error = poison_row(["flights", 0, 7], "the table", "id is null", cause="c", fix="f")
    assert str(error).startswith(
        "the row from offset 7 of flights-0 cannot be written to the table: id is null"
    )
    assert (error.partition, error.offset) == (TopicPartition("flights", 0), 7)
    assert (error.cause, error.fix) == ("c", "f")
    for origin in ((None, 0, 7), ("flights", None, 7), ("flights", 0, None)):
        error = poison_row(origin, "the table", "id is null", cause="c", fix="f")
        assert str(error.problem).endswith("the table: id is null")
        assert (error.partition, error.offset) == (None, None)
