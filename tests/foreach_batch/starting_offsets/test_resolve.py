"""Where a query is to begin, from facts alone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from eo_listener.errors import (
    EoListenerError,
    GapError,
    PartitionVanishedError,
    RegressionError,
    SettingsError,
    TopicRecreatedError,
)
from eo_listener.foreach_batch.starting_offsets.resolve import (
    Origin,
    Policy,
    Recreated,
    choose,
    choose_for_group,
)
from eo_listener.model.offsets_json import write_offsets
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import OffsetRange, TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))
LOGS = GroupSnapshot(
    positions={}, starts={A: 5, B: 5, C: 5}, ends={A: 20, B: 20, C: 20}, topic_ids={"t": "one"}
)
ORIGIN = Origin(label="the ledger", offsets={A: 5, B: 20, C: 12})


def chosen(
    origin: Origin,
    missing: Policy = Policy.EARLIEST,
    out_of_range: Policy = Policy.FAIL,
    logs: GroupSnapshot = LOGS,
    recreated: Recreated = Recreated.FAIL,
) -> dict[TopicPartition, int]:
    return choose(
        origin,
        list(logs.starts),
        logs,
        missing=missing,
        out_of_range=out_of_range,
        recreated=recreated,
    )


def test_positions_within_the_log_are_taken() -> None:
    """The first offset that the log has, the last, and what is between, are as they were held."""
    assert chosen(ORIGIN) == {A: 5, B: 20, C: 12}


@pytest.mark.parametrize(("policy", "offset"), [(Policy.EARLIEST, -2), (Policy.LATEST, -1)])
def test_policies(policy: Policy, offset: int) -> None:
    """A missing position, and one out of range, become what their policies say."""
    assert chosen(replace(ORIGIN, offsets={A: 7}), missing=policy) == {A: 7, B: offset, C: offset}
    assert chosen(Origin(label="", offsets={A: 4, B: 21, C: 7}), out_of_range=policy) == {
        A: offset,
        B: offset,
        C: 7,
    }


@pytest.mark.parametrize(
    ("origin", "logs", "error", "ranges"),
    [
        (replace(ORIGIN, offsets={A: 3}), LOGS, GapError, {A: OffsetRange(3, 5)}),
        (replace(ORIGIN, offsets={B: 25}), LOGS, RegressionError, {B: OffsetRange(20, 25)}),
        (
            replace(ORIGIN, topic_ids={A: "older"}),
            LOGS,
            TopicRecreatedError,
            {A: OffsetRange(0, 5)},
        ),
        (
            ORIGIN,
            replace(LOGS, starts={A: 5, B: 5}, ends={A: 20, B: 20}),
            PartitionVanishedError,
            {C: OffsetRange(12, 12)},
        ),
    ],
)
def test_what_no_start_can_heal(
    origin: Origin,
    logs: GroupSnapshot,
    error: type[EoListenerError],
    ranges: dict[TopicPartition, OffsetRange],
) -> None:
    """Lost records, a log cut back, a topic recreated and a vanished partition are errors."""
    with pytest.raises(error) as raised:
        chosen(origin, logs=logs)
    assert raised.value.ranges == ranges  # type: ignore[attr-defined]  # all of them are GuardErrors
    assert raised.value.cause
    assert raised.value.fix


def test_the_policies_do_not_reach_a_topic_recreated() -> None:
    """Neither policy accepts offsets of an older topic."""
    origin = replace(ORIGIN, topic_ids={A: "older"})
    with pytest.raises(TopicRecreatedError):
        chosen(origin, missing=Policy.LATEST, out_of_range=Policy.EARLIEST)


def test_a_topic_recreated_begins_at_its_beginning_where_that_is_asked_for() -> None:
    """By its id or by partitions that are gone; other topics go on, and one all gone is refused."""
    other = TopicPartition("u", 0)
    logs = replace(
        LOGS,
        starts={A: 0, B: 0, other: 0},
        ends={A: 9, B: 9, other: 9},
        topic_ids={"t": "two", "u": "three"},
    )
    known = Origin(
        label="the ledger", offsets={A: 5, other: 7}, topic_ids={A: "one", other: "three"}
    )
    unknown = Origin(label="the group", offsets={A: 5, B: 6, C: 5, other: 7})
    for origin in (known, unknown):
        with pytest.raises((TopicRecreatedError, PartitionVanishedError), match="recreated="):
            chosen(origin, logs=logs)
        assert chosen(origin, logs=logs, recreated=Recreated.EARLIEST) == {A: -2, B: -2, other: 7}
    gone = Origin(label="", offsets={other: 7, TopicPartition("gone", 0): 3})
    with pytest.raises(PartitionVanishedError, match="gone-0"):
        chosen(gone, logs=logs, recreated=Recreated.EARLIEST)


def test_what_was_begun_of_a_topic_recreated_goes_on() -> None:
    """Its other partitions begin at their beginning; what is gone was of the one before."""
    logs = replace(LOGS, starts={A: 0, B: 0}, ends={A: 9, B: 9}, topic_ids={"t": "two"})
    ids = {A: "two", B: "one", C: "one"}
    half = Origin(label="the ledger", offsets={A: 5, B: 20, C: 12}, topic_ids=ids)
    assert chosen(half, logs=logs, recreated=Recreated.EARLIEST) == {A: 5, B: -2}
    with pytest.raises(TopicRecreatedError, match="t-1"):
        chosen(half, logs=logs)
    whole = replace(half, topic_ids={**ids, B: "two"}, offsets={A: 5, B: 6, C: 12})
    for recreated in Recreated:
        assert chosen(whole, logs=logs, recreated=recreated) == {A: 5, B: 6}
    gone = replace(whole, topic_ids=dict.fromkeys((A, B, C), "two"))
    for recreated in Recreated:
        with pytest.raises(PartitionVanishedError, match="t-2"):
            chosen(gone, logs=logs, recreated=recreated)


def test_missing_positions_may_be_an_error() -> None:
    """With `fail` a partition without a position is named."""
    with pytest.raises(SettingsError, match=r"no position for t-1.*missing="):
        chosen(replace(ORIGIN, offsets={A: 7}), missing=Policy.FAIL)


def test_the_text_is_sparks() -> None:
    """JSON by topic and partition, whatever is in a topic's name."""
    odd = TopicPartition('a"b', 0)
    assert json.loads(write_offsets({B: -1, A: 3, odd: -2})) == {
        "t": {"0": 3, "1": -1},
        'a"b': {"0": -2},
    }


def test_a_group_gets_offsets_that_are_there() -> None:
    """Earliest and latest are the log's own; what it holds already and no origin names is left."""
    origin = Origin(label="o", offsets={A: 7})

    def given(missing: Policy | None) -> dict[TopicPartition, int]:
        return choose_for_group(
            origin, (A, B, C), {B}, LOGS, missing=missing, out_of_range=Policy.FAIL
        )

    assert given(Policy.EARLIEST) == {A: 7, C: 5}
    assert given(Policy.LATEST) == {A: 7, C: 20}
    assert given(None) == {A: 7}
    with pytest.raises(SettingsError, match="no position for t-2"):
        given(Policy.FAIL)
