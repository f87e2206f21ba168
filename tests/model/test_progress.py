"""Spark's recorded events become typed offsets, the same in every version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eo_listener.model.errors import FormatError
from eo_listener.model.offsets import Offsets
from eo_listener.model.progress import Progress

VERSIONS = ("3.5.7", "4.0.0", "4.2.0")


def recorded(version: str, case: str) -> list[Mapping[str, Any]]:
    """The progress events that Spark of this version sent in this case."""
    text = Path(__file__).parents[1].joinpath("data", f"events-{version}.json").read_text()
    return [
        event["json"]
        for event in json.loads(text)["events"]
        if event["event"] == "progress" and event["case"] == case
    ]


def parsed(version: str, case: str) -> list[Progress]:
    return [Progress.parse(json.dumps(event)) for event in recorded(version, case)]


@pytest.mark.parametrize("version", VERSIONS)
class TestRecorded:
    """The same small program on each version: three partitions, 100 rows, then ten more."""

    def topic(self, version: str, suffix: str) -> str:
        return "rec" + version.replace(".", "") + suffix

    def test_one_source(self, version: str) -> None:
        """End offsets are read as the next record to read, start is None in batch 0 only."""
        first, second = parsed(version, "one")
        topic = self.topic(version, "a")
        assert (first.name, first.batch_id, second.batch_id) == ("flights", 0, 1)
        assert first.sources[0].start is None
        assert first.sources[0].end == Offsets.of({topic: {0: 42, 1: 37, 2: 21}})
        assert second.sources[0].start == first.sources[0].end
        assert second.sources[0].end == Offsets.of({topic: {0: 44, 1: 42, 2: 24}})
        assert first.run_id == second.run_id
        assert first.query == "flights"

    def test_two_sources_keep_their_index(self, version: str) -> None:
        """Each source of a union has its own index and offsets."""
        last = parsed(version, "two_sources")[-1]
        assert [source.index for source in last.sources] == [0, 1]
        ends = [source.end.topics() for source in last.sources if source.end]
        assert ends == [(self.topic(version, "a"),), (self.topic(version, "b"),)]

    def test_other_sources_are_left_out(self, version: str) -> None:
        """A rate source beside a Kafka source does not shift or hide it."""
        last = parsed(version, "rate_mixed")[-1]
        assert [source.index for source in last.sources] == [0]
        assert parsed(version, "rate_only")[0].sources == ()

    def test_pattern_and_assign(self, version: str) -> None:
        """subscribePattern gives every topic, assign only the partitions assigned."""
        pattern = parsed(version, "pattern")[0].sources[0].end
        assert pattern is not None
        assert pattern.topics() == (self.topic(version, "p1"), self.topic(version, "p2"))
        assigned = parsed(version, "assign")[0].sources[0].end
        assert assigned == Offsets.of({self.topic(version, "a"): {0: 44, 2: 24}})

    def test_sparks_own_numbers(self, version: str) -> None:
        """Rows, rates, the trigger's begin and length are read; log ends stand beside the ends."""
        second = parsed(version, "one")[1]
        measures = second.metrics
        assert measures.rows == 10
        assert measures.input_rows_per_second is not None
        assert measures.input_rows_per_second > 100
        assert measures.processed_rows_per_second is not None
        assert measures.started is not None
        assert second.planned is not None
        assert 0.0 < second.planned - measures.started < 1.0
        assert measures.seconds is not None
        assert 1.0 < measures.seconds < 2.0
        assert (measures.newest, measures.watermark) == (None, None)
        assert second.sources[0].log_ends == second.sources[0].end

    def test_transactional_end_is_after_the_marker(self, version: str) -> None:
        """On a topic written by one transaction each end is one more than its records: 100 + 3."""
        end = parsed(version, "transactional")[0].sources[0].end
        assert end is not None
        assert sum(end.values()) == 103


def event(**changes: object) -> str:
    base = dict(recorded("4.0.0", "one")[0])
    base.update(changes)
    return json.dumps(base)


def source(**changes: object) -> list[dict[str, object]]:
    return [{"description": "KafkaV2[Subscribe[t]]", "startOffset": None, **changes}]


def test_an_offset_given_as_text_is_read_too() -> None:
    """Some writers of the event put the offset JSON into a string."""
    progress = Progress.parse(event(sources=source(endOffset='{"t":{"0":5}}')))
    assert progress.sources[0].end == Offsets.of({"t": {0: 5}})


@pytest.mark.parametrize("took", [{"latestOffset": 250}, {}, None])
def test_a_batch_is_planned_once_its_ends_are_known(took: dict[str, int] | None) -> None:
    """After the trigger has begun, and the search for the newest offsets is over."""
    progress = Progress.parse(event(timestamp="1970-01-01T00:01:00.500Z", durationMs=took))
    assert progress.planned == (60.75 if took else 60.5)
    assert progress.metrics.started == 60.5


def test_an_event_without_end_offsets_has_none() -> None:
    """An idle event says nothing about positions, which is not position zero."""
    progress = Progress.parse(event(sources=source(endOffset=None)))
    assert progress.sources[0].end is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "{",
        '"text"',
        event(sources=None),
        event(sources=[{}]),
        event(sources=source(endOffset={"t": {"x": 5}})),
        event(sources=source(endOffset={"t": {"0": -1}})),
        event(sources=source(endOffset={"t": 5})),
        event(sources=source(endOffset="None")),
        event(batchId=None),
    ],
)
def test_anything_else_is_refused_in_one_error(text: str) -> None:
    """What is not a progress event raises FormatError, never another exception."""
    with pytest.raises(FormatError, match="progress event"):
        Progress.parse(text)


def test_log_ends_beyond_the_batch_are_kept_apart() -> None:
    """With maxOffsetsPerTrigger a batch ends before the log does."""
    given = source(endOffset={"t": {"0": 5}}, latestOffset={"t": {"0": 9}})
    progress = Progress.parse(event(sources=given))
    assert progress.sources[0].log_ends == Offsets.of({"t": {0: 9}})


@pytest.mark.parametrize("latest", [None, "None", [], 5, {"t": {"0": -1}}, {"t": 3}])
def test_log_ends_that_cannot_be_read_are_no_reason_to_refuse_an_event(latest: object) -> None:
    """They are only shown: the end offsets count."""
    progress = Progress.parse(event(sources=source(endOffset={"t": {"0": 5}}, latestOffset=latest)))
    assert progress.sources[0].end == Offsets.of({"t": {0: 5}})
    assert progress.sources[0].log_ends is None


def test_event_times_are_read_in_seconds_since_the_epoch() -> None:
    """The epoch itself is what Spark writes before there is a watermark."""
    times = {"max": "2013-01-01T10:00:00.500Z", "watermark": "1970-01-01T00:00:00.000Z"}
    measures = Progress.parse(event(eventTime=times)).metrics
    assert measures.newest == 1357034400.5
    assert measures.watermark is None
    times["watermark"] = "2013-01-01T09:50:00.000Z"
    assert Progress.parse(event(eventTime=times)).metrics.watermark == 1357033800.0


@pytest.mark.parametrize("number", ["fast", None, float("nan"), float("inf"), 10**400])
def test_a_number_that_is_none_is_left_out(number: object) -> None:
    """What is only shown never refuses an event."""
    progress = Progress.parse(event(inputRowsPerSecond=number, numInputRows=number))
    assert progress.metrics.input_rows_per_second is None
    assert progress.metrics.rows is None
