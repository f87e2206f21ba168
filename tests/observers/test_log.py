"""What the log says: each trouble once, its end, and in short lines."""

from __future__ import annotations

import logging
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

import pytest

from eo_listener import events
from eo_listener.events import (
    BatchReplayed,
    CommitAbandoned,
    CommitFailed,
    Committed,
    CommitterFenced,
    Event,
    GroupOffsetsMissing,
    InternalError,
    OptionsRead,
    PartitionsShared,
    ProgressEventsDuplicated,
    ProgressEventsMissed,
    QueryModeDetected,
    QueryStateLost,
    SourceIgnored,
    TopicRecreated,
)
from eo_listener.observers.log import LONGEST, EventLogger
from eo_listener.offsets import OffsetRange, Offsets, TopicPartition
from tests.observers.events import (
    APPLIED,
    BATCH,
    FOREIGN,
    GROUP,
    HALTED,
    P0,
    P1,
    RUN,
    committed,
    failed,
    refused,
)

FIVE, OTHER = Offsets({P0: 5}), Offsets({P1: 5})
DONE = committed(FIVE)


def told(caplog: pytest.LogCaptureFixture, *events: Event) -> list[tuple[int, str]]:
    logbook = EventLogger()
    with caplog.at_level(logging.INFO, "eo_listener"):
        for event in events:
            logbook(event)
    return [(record.levelno, record.getMessage()) for record in caplog.records]


def test_an_outage_is_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    """A hundred failures in a row are one warning, with cause and fix, and one line at the end."""
    lines = told(caplog, *[failed()] * 100, DONE)
    assert [level for level, _ in lines] == [logging.WARNING, logging.INFO, logging.INFO]
    assert "the cause of _TRANSPORT (connection refused)" in lines[0][1]
    assert "the fix" in lines[0][1]
    assert "after 100 failures" in lines[1][1]


@pytest.mark.parametrize("unknown", [True, False])
def test_an_unknown_outcome_is_reported(caplog: pytest.LogCaptureFixture, unknown: bool) -> None:
    """The commit may have landed; where Kafka has refused it, it has not."""
    ((_, line),) = told(caplog, replace(failed(), unknown=unknown))
    assert (", outcome unknown)" in line) is unknown


GONE = failed("UNKNOWN_TOPIC_OR_PART", P1)
OUTAGE = [*(failed("_TRANSPORT", tp) for tp in (P0, P1, P0)), DONE]


@pytest.mark.parametrize(
    ("events", "words", "times"),
    [
        # When the cause changes, the new one is logged, once.
        ([failed(), failed("UNKNOWN_MEMBER_ID"), failed(), failed()], "commit failed", 2),
        # A partition that stays refused is not reported after each good commit around it,
        ([GONE, DONE] * 2, "commit failed", 1),
        ([GONE, DONE] * 2, "commits succeed again", 0),
        # and a second outage is logged like the first while a topic keeps its group failing.
        ([GONE, *OUTAGE, GONE, *OUTAGE], "commit failed (_TRANSPORT", 2),
        ([GONE, *OUTAGE, GONE, *OUTAGE], "commit failed (UNKNOWN", 1),
        # Two queries that fight over a group do not fill the log.
        ([refused(), refused()], "", 1),
    ],
)
def test_each_trouble_is_said_once(
    caplog: pytest.LogCaptureFixture, events: list[Event], words: str, times: int
) -> None:
    """However often it comes, as long as it lasts."""
    assert [words in line for _, line in told(caplog, *events)].count(True) == times


def test_the_first_commit_of_a_group_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Each group's first commit has level INFO, every later one DEBUG."""
    logbook = EventLogger()
    with caplog.at_level(logging.DEBUG, "eo_listener"):
        for event in (DONE, DONE, replace(DONE, group="h")):
            logbook(event)
    assert [(one.levelno, one.getMessage()) for one in caplog.records] == [
        (logging.INFO, "group g at k:9092: commits have begun"),
        (logging.DEBUG, "group g at k:9092: committed t-0: 5"),
        (logging.DEBUG, "group g at k:9092: committed t-0: 5"),
        (logging.INFO, "group h at k:9092: commits have begun"),
        (logging.DEBUG, "group h at k:9092: committed t-0: 5"),
    ]


def test_an_end_says_how_long_it_took(caplog: pytest.LogCaptureFixture) -> None:
    """From the first failure, of however many partitions, to the last that is committed."""
    now = [100.0]
    logbook = EventLogger(lambda: now[0])
    with caplog.at_level(logging.INFO, "eo_listener"):
        for event in (*(failed("_TRANSPORT", tp) for tp in (P0, P1)), DONE, committed(OTHER)):
            logbook(event)
            now[0] += 2.5
    (end,) = [line for line in caplog.messages if "commits succeed again" in line]
    assert end.endswith("after 2 failures in 7.5 s")


MALFUNCTION = InternalError(where="query q", problem="TypeError")


@pytest.mark.parametrize("event", [refused(), FOREIGN, MALFUNCTION])
def test_what_comes_back_later_is_news(caplog: pytest.LogCaptureFixture, event: Event) -> None:
    """A fight that goes on is one line; the same trouble some weeks later is another."""
    now = [0.0]
    logbook = EventLogger(lambda: now[0])
    for minute in range(120):
        now[0] = minute * 60.0
        logbook(event)
    assert len(caplog.records) == 1
    now[0] += 599.0
    logbook(event)
    assert len(caplog.records) == 1
    now[0] += 601.0
    logbook(event)
    assert len(caplog.records) == 2


def test_troubles_do_not_silence_the_next(caplog: pytest.LogCaptureFixture) -> None:
    """The most recent problems are remembered; a new one is always logged."""
    logbook = EventLogger(lambda: 0.0)
    for number in range(3_000):
        logbook(refused(f"k{number}:9092"))
    assert len(caplog.records) == 3_000
    logbook(refused("k2500:9092"))
    assert len(caplog.records) == 3_000
    assert len(logbook._last_met) == 1000


IGNORED: dict[str, Any] = {**RUN, "source": 1, "problem": "p", "cause": "c", "fix": "f"}
LOST = {P0: OffsetRange(5, 7), P1: OffsetRange(1, 2)}
NO_LINE, INFO, WARNING, ERROR = logging.NOTSET, logging.INFO, logging.WARNING, logging.ERROR


@pytest.mark.parametrize(
    ("event", "level", "parts"),
    [
        (CommitAbandoned(**GROUP, offsets=FIVE), ERROR, ["before Kafka confirmed", "t-0: 5"]),
        (GroupOffsetsMissing(**GROUP, offsets=FIVE), WARNING, ["t-0: 5"]),
        (TopicRecreated(**GROUP, topic="t", was="a", now="b", offsets=FIVE), ERROR, ["topic t"]),
        (CommitterFenced(**GROUP, code="X", cause="c", fix="f", offsets=FIVE), ERROR, ["(X)"]),
        (PartitionsShared(**GROUP, partitions=(P0,), readers=("one", "two")), WARNING, ["one"]),
        # Batches that went well are not logged; a replay, an accepted loss and a failure are.
        (APPLIED, NO_LINE, []),
        (replace(APPLIED, gaps=LOST, attempts=2), WARNING, ["12", "2", "3", "t-0 5..7, t-1 1..2"]),
        (replace(APPLIED, dead_letters=3), INFO, ["12", "3"]),
        (replace(APPLIED, attempts=2), INFO, ["2"]),
        (replace(APPLIED, skipped={P0: OffsetRange(0, 5)}), WARNING, ["5"]),
        (BatchReplayed(**BATCH, discarded=True), INFO, ["nothing was written"]),
        (HALTED, ERROR, ["GapError: p. Cause: c. Fix: f"]),
        (QueryStateLost(**BATCH), WARNING, []),
        # Events that come twice or never are warnings, a query's kind is an information.
        (ProgressEventsDuplicated(**RUN, batch_id=7), WARNING, ["removeListener"]),
        (ProgressEventsMissed(**RUN, after_batch=6, before_batch=7), WARNING, ["6"]),
        (QueryModeDetected(**RUN, mode="continuous", effect="late"), INFO, ["late"]),
        # Only a mistake is a warning; a source nobody asked to commit is an information.
        (SourceIgnored(**IGNORED, misconfigured=True), WARNING, ["source 1: p. Cause: c. Fix: f"]),
        (OptionsRead(**RUN), INFO, ["withdrawn"]),
        (SourceIgnored(**IGNORED, misconfigured=False), INFO, ["source 1: p. Cause: c. Fix: f"]),
    ],
)
def test_what_happens_is_logged_as_far_as_it_matters(
    caplog: pytest.LogCaptureFixture, event: Event, level: int, parts: list[str]
) -> None:
    """Each time; with the group or the query, and the facts. What ends commits is an error."""
    lines = told(caplog, event, event)
    assert [one for one, _ in lines] == [level] * (2 * (level is not NO_LINE))
    for _, line in lines:
        assert line.startswith(("group g at k:9092: ", "query flights"))
        assert [part for part in parts if part not in line] == []


def test_records_of_one_kind_have_one_template(caplog: pytest.LogCaptureFixture) -> None:
    """Tools that group lines do it by `msg` and `funcName`; the values stand in `args`."""
    other = replace(failed("UNKNOWN_MEMBER_ID"), group="h")
    told(caplog, failed(), other, DONE, InternalError(where="here", problem="KeyError"))
    first, second, *others = caplog.records
    assert first.msg == second.msg
    assert first.msg.startswith("group %s at %s: commit failed (")
    assert [next(iter(one.args or ())) for one in (first, second)] == ["g", "h"]
    assert {first.msg}.isdisjoint(one.msg for one in others)
    assert "%s" not in {one.msg for one in caplog.records}
    assert {one.funcName for one in caplog.records} == {"_failed", "_committed", "__call__"}
    assert all(isinstance(v, str | int | float) for r in caplog.records for v in r.args or ())


def test_a_line_that_is_cut_tells_where_it_comes_from_too(caplog: pytest.LogCaptureFixture) -> None:
    """What does not fit is one text, of the function that wrote it."""
    told(caplog, replace(failed(), detail="x" * 10_000))
    (record,) = caplog.records
    assert (record.msg, record.funcName) == ("%s", "_failed")
    assert len(record.getMessage()) <= LONGEST


def kinds() -> list[type[Event]]:
    """Every kind of event that there is."""
    return [one for one in vars(events).values() if isinstance(one, type) and issubclass(one, Event)
            and one is not Event]  # fmt: skip


class Filled:
    """Builds values of any type that an event holds: so many partitions, texts so long."""

    def __init__(self, partitions: int, letters: int) -> None:
        self.text = "x" * letters
        topic = "t" * min(letters, 245)
        self.partitions = [
            TopicPartition(f"{topic}{number % 1000}", number // 1000)
            for number in range(partitions)
        ]

    def event(self, kind: type[Event]) -> Event:
        found = self.of(kind)
        assert isinstance(found, Event)
        return found

    def of(self, kind: Any) -> Any:
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if kind is Offsets:
            return Offsets(dict.fromkeys(self.partitions, 10**15))
        if origin in (typing.Union, types.UnionType):
            return self.of(next(one for one in inner if one is not type(None)))
        if origin is not None and issubclass(origin, Mapping):
            return {one: self.of(inner[1]) for one in self.keys(inner[0])}
        if origin in (tuple, frozenset):
            return origin(self.items(inner[0]))
        if isinstance(kind, type) and issubclass(kind, Enum):
            return list(kind)[-1]
        if kind is TopicPartition:
            return self.partitions[0]
        if is_dataclass(kind):
            hints = typing.get_type_hints(kind)
            return kind(**{one.name: self.of(hints[one.name]) for one in fields(kind)})  # type: ignore[operator]  # a class
        if isinstance(kind, type) and issubclass(kind, tuple):  # a NamedTuple
            return kind(*map(self.of, typing.get_type_hints(kind).values()))
        return {str: self.text, int: 10**15, float: 1e9, bool: True}[kind]

    def keys(self, kind: Any) -> list[Any]:
        return self.partitions if kind is TopicPartition else [self.of(kind)]

    def items(self, kind: Any) -> Iterator[Any]:
        if kind is TopicPartition:
            yield from self.partitions
            return
        some = len(self.partitions) if "Violation" in str(kind) else 3  # others hold all of them
        for one in self.partitions[:some]:
            yield (self.of(kind) if not typing.get_args(kind) else (self.text, str(one)))


@pytest.mark.parametrize("kind", kinds())
@pytest.mark.parametrize(("partitions", "letters"), [(1, 5), (6, 245), (5000, 245), (7, 5000)])
def test_no_line_is_long(
    kind: type[Event], partitions: int, letters: int, caplog: pytest.LogCaptureFixture
) -> None:
    """With thousands of partitions, the longest names, and texts of any length."""
    with caplog.at_level(logging.DEBUG, "eo_listener"):
        EventLogger()(Filled(partitions, letters).event(kind))
    assert all(len(record.getMessage()) <= LONGEST for record in caplog.records)


def test_every_kind_of_event_is_met(caplog: pytest.LogCaptureFixture) -> None:
    """And most of them are told, so that what is above looks at something."""
    told = set()
    for kind in kinds():
        caplog.clear()
        with caplog.at_level(logging.DEBUG, "eo_listener"):
            EventLogger()(Filled(5, 5).event(kind))
        told |= {kind.__name__ for _ in caplog.records}
    assert len(kinds()) > 20
    assert {one.__name__ for one in kinds()} - told == {
        "QueryProgressed",
        "QueryReported",
        "RunGroupsChanged",
    }


def test_a_long_line_keeps_what_happened_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    """Its middle is left out, and it says how much."""
    failed = Filled(5000, 245).event(CommitFailed)
    with caplog.at_level(logging.DEBUG, "eo_listener"):
        EventLogger()(failed)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("group xxx")
    assert line.endswith("committed again")


def test_a_few_partitions_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """The first five and how many more; all of them where there are no more."""
    many = Offsets({TopicPartition("t", number): number for number in range(7)})
    with caplog.at_level(logging.DEBUG, "eo_listener"):
        EventLogger()(CommitAbandoned(cluster="k:9092", group="g", offsets=many))
        EventLogger()(Committed(cluster="k:9092", group="g", offsets=Offsets(), seconds=0.1))
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].endswith(": t-0: 0, t-1: 1, t-2: 2, t-3: 3, t-4: 4 and 2 more")
    assert lines[-1].endswith("committed none")
    assert str(many.without([TopicPartition("t", 5), TopicPartition("t", 6)])).endswith("t-4: 4")
