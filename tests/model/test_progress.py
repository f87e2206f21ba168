"""Spark's recorded events become typed offsets, the same in every version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eo_listener.errors import FormatError
from eo_listener.model.progress import Progress
from eo_listener.offsets import Offsets

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


each_version = pytest.mark.parametrize("version", VERSIONS)


def topic(version: str, suffix: str) -> str:
    return "rec" + version.replace(".", "") + suffix


@each_version
def test_one_source(version: str) -> None:
    """End offsets are read as the next record to read, start is None in batch 0 only."""
    first, second = parsed(version, "one")
    assert (first.name, first.batch_id, second.batch_id) == ("flights", 0, 1)
    assert first.sources[0].start is None
    assert first.sources[0].end == Offsets.of({topic(version, "a"): {0: 42, 1: 37, 2: 21}})
    assert second.sources[0].start == first.sources[0].end
    assert second.sources[0].end == Offsets.of({topic(version, "a"): {0: 44, 1: 42, 2: 24}})
    assert first.run_id == second.run_id
    assert first.query == "flights"


@each_version
@pytest.mark.parametrize(
    ("case", "topics"),
    [
        ("two_sources", {0: ("a",), 1: ("b",)}),
        ("rate_mixed", {0: ("a",)}),
        ("rate_only", {}),
        ("pattern", {0: ("p1", "p2")}),
        ("assign", {0: ("a",)}),
    ],
)
def test_each_source_has_its_index(
    version: str, case: str, topics: dict[int, tuple[str, ...]]
) -> None:
    """Sources of other kinds neither shift nor hide one; a pattern gives every topic."""
    last = parsed(version, case)[-1]
    ends = {source.index: source.end for source in last.sources}
    assert {index: end.topics() for index, end in ends.items() if end} == {
        index: tuple(topic(version, suffix) for suffix in suffixes)
        for index, suffixes in topics.items()
    }
    if case == "assign":
        assert ends[0] == Offsets.of({topic(version, "a"): {0: 44, 2: 24}})


@each_version
def test_sparks_own_numbers(version: str) -> None:
    """Rows, rates, the trigger's begin and length are read; log ends stand beside the ends."""
    second = parsed(version, "one")[1]
    measures = second.metrics
    assert measures.rows == 10
    assert (measures.input_rows_per_second or 0) > 100
    assert measures.processed_rows_per_second is not None
    assert 0.0 < (second.planned or 0) - (measures.started or 0) < 1.0
    assert 1.0 < (measures.seconds or 0) < 2.0
    assert (measures.newest, measures.watermark) == (None, None)
    assert second.sources[0].log_ends == second.sources[0].end


@each_version
def test_transactional_end_is_after_the_marker(version: str) -> None:
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


@pytest.mark.parametrize(
    ("given", "end"), [('{"t":{"0":5}}', Offsets.of({"t": {0: 5}})), (None, None)]
)
def test_an_offset_is_text_or_none_too(given: str | None, end: Offsets | None) -> None:
    """Some writers put the JSON into a string; an idle event has none, which is not zero."""
    assert Progress.parse(event(sources=source(endOffset=given))).sources[0].end == end


@pytest.mark.parametrize("took", [{"latestOffset": 250}, {}, None])
def test_a_batch_is_planned_once_its_ends_are_known(took: dict[str, int] | None) -> None:
    """After the trigger has begun, and the search for the newest offsets is over."""
    progress = Progress.parse(event(timestamp="1970-01-01T00:01:00.500Z", durationMs=took))
    assert progress.planned == (60.75 if took else 60.5)
    assert progress.metrics.started == 60.5


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


@pytest.mark.parametrize("latest", [{"t": {"0": 9}}, None, "None", [], 5, {"t": {"0": -1}}])
def test_log_ends_are_kept_apart_or_left_out(latest: object) -> None:
    """A batch may end before the log; ends that cannot be read are no reason to refuse an event."""
    progress = Progress.parse(event(sources=source(endOffset={"t": {"0": 5}}, latestOffset=latest)))
    assert progress.sources[0].end == Offsets.of({"t": {0: 5}})
    beyond = Offsets.of({"t": {0: 9}})
    assert progress.sources[0].log_ends == (beyond if latest == {"t": {"0": 9}} else None)


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
