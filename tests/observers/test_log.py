"""What the log says: each trouble once, and its end."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from eo_listener.model.events import (
    BatchApplied,
    BatchFailed,
    BatchReplayed,
    CommitAbandoned,
    CommitFailed,
    CommitRefused,
    Committed,
    CommitterFenced,
    Event,
    ForeignCommit,
    GroupOffsetsMissing,
    InternalError,
    PartitionsShared,
    ProgressEventsDuplicated,
    ProgressEventsMissed,
    QueryModeDetected,
    QueryStateLost,
    Refusal,
    SourceIgnored,
    TopicRecreated,
)
from eo_listener.model.offsets import OffsetRange, Offsets, TopicPartition
from eo_listener.observers.log import LONGEST, EventLogger

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def failed(code: str = "_TRANSPORT", tp: TopicPartition = P0) -> CommitFailed:
    return CommitFailed(
        cluster="k:9092",
        group="g",
        errors={tp: code},
        code=code,
        cause=f"the cause of {code}",
        fix="the fix",
        detail="connection refused",
        refused=False,
        unknown=True,
        failures=1,
        retry_in=1.0,
    )


def committed(*partitions: TopicPartition) -> Committed:
    offsets = Offsets(dict.fromkeys(partitions or (P0,), 5))
    return Committed(cluster="k:9092", group="g", offsets=offsets, seconds=0.01)


def told(caplog: pytest.LogCaptureFixture, *events: Event) -> list[tuple[int, str]]:
    logbook = EventLogger()
    with caplog.at_level(logging.INFO, "eo_listener"):
        for event in events:
            logbook(event)
    return [(record.levelno, record.getMessage()) for record in caplog.records]


def test_an_outage_is_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    """A hundred failures in a row are one warning, with cause and fix, and one line at the end."""
    lines = told(caplog, *[failed()] * 100, committed())
    assert [level for level, _ in lines] == [logging.WARNING, logging.INFO, logging.INFO]
    assert "the cause of _TRANSPORT (connection refused)" in lines[0][1]
    assert "the fix" in lines[0][1]
    assert "committed again, after 100 failures" in lines[1][1]


@pytest.mark.parametrize("unknown", [True, False])
def test_an_outcome_that_is_not_known_is_reported(
    caplog: pytest.LogCaptureFixture, unknown: bool
) -> None:
    """The commit may have landed; where Kafka has refused it, it has not."""
    ((_, line),) = told(caplog, replace(failed(), unknown=unknown))
    assert (", outcome unknown)" in line) is unknown


def test_another_kind_of_trouble_is_said_again(caplog: pytest.LogCaptureFixture) -> None:
    """When the cause changes, the new one is logged, once."""
    lines = told(caplog, failed(), failed("UNKNOWN_MEMBER_ID"), failed(), failed())
    assert len(lines) == 2


def test_trouble_of_one_partition_lasts_while_others_commit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A partition that stays refused is not reported again after each good commit around it."""
    bad = failed("UNKNOWN_TOPIC_OR_PART", P1)
    lines = told(caplog, bad, committed(P0), bad, committed(P0), bad)
    assert [text for _, text in lines if "commit failed" in text] == [lines[0][1]]
    assert not [text for _, text in lines if "committed again, after" in text]


def test_the_next_outage_is_news_though_a_partition_is_in_trouble_still(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While a deleted topic keeps its group failing, a second outage is logged like the first."""
    gone = failed("UNKNOWN_TOPIC_OR_PART", P1)
    outage = [failed(tp=P0), failed(tp=P1), failed(tp=P0), committed(P0)]
    lines = told(caplog, gone, *outage, gone, *outage)
    assert len([text for _, text in lines if "commit failed (_TRANSPORT" in text]) == 2
    assert len([text for _, text in lines if "commit failed (UNKNOWN" in text]) == 1


def test_a_rewind_is_said_once_a_group(caplog: pytest.LogCaptureFixture) -> None:
    """Two queries that fight over a group do not fill the log."""
    lines = told(caplog, refused(), refused())
    assert len(lines) == 1
    assert "share the group" in lines[0][1]


def refused(cluster: str = "k:9092") -> CommitRefused:
    return CommitRefused(
        cluster=cluster,
        group="g",
        refusal=Refusal.BELOW_COMMITTED,
        offered=Offsets({P0: 3}),
        held=Offsets({P0: 5}),
    )


def foreign() -> ForeignCommit:
    return ForeignCommit(
        cluster="k:9092",
        group="g",
        found=Offsets({P0: 3}),
        ours=Offsets({P0: 5}),
        writer=None,
        zombie=False,
    )


GROUP: dict[str, Any] = {"cluster": "k:9092", "group": "g"}
OF_GROUP: list[tuple[Event, int, str]] = [
    (CommitAbandoned(**GROUP, offsets=Offsets({P0: 5})), logging.ERROR, "confirmed; the group"),
    (GroupOffsetsMissing(**GROUP, offsets=Offsets({P0: 5})), logging.WARNING, "t-0: 5"),
    (
        TopicRecreated(**GROUP, topic="t", was="one", now="two", offsets=Offsets({P0: 5})),
        logging.ERROR,
        "topic t",
    ),
    (
        CommitterFenced(
            **GROUP, code="FENCED_INSTANCE_ID", cause="c", fix="f", offsets=Offsets({P0: 5})
        ),
        logging.ERROR,
        "FENCED_INSTANCE_ID",
    ),
    (
        PartitionsShared(**GROUP, partitions=(P0,), readers=("one, 0", "two, 1")),
        logging.WARNING,
        "one, 0",
    ),
]


@pytest.mark.parametrize(("event", "level", "part"), OF_GROUP)
def test_what_ends_commits_is_an_error(
    caplog: pytest.LogCaptureFixture, event: Event, level: int, part: str
) -> None:
    """What recovers by itself is a warning; each names the group, and is logged each time."""
    for said, text in told(caplog, event, event):
        assert (said, text.startswith("group g at k:9092: "), part in text) == (level, True, True)
    assert len(caplog.records) == 2


def test_the_first_commit_of_a_group_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Each group's first commit has level INFO, every later one DEBUG."""
    logbook = EventLogger()
    with caplog.at_level(logging.DEBUG, "eo_listener"):
        for event in (committed(), committed(), replace(committed(), group="h")):
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
        for event in (failed(tp=P0), failed(tp=P1), committed(P0), committed(P1)):
            logbook(event)
            now[0] += 2.5
    (end,) = [line for line in caplog.messages if "committed again, after" in line]
    assert end.endswith("committed again, after 2 failures in 7.5 s")


MALFUNCTION = InternalError(where="query q", problem="TypeError")


@pytest.mark.parametrize("event", [refused(), foreign(), MALFUNCTION])
def test_what_comes_back_after_a_while_is_news(
    caplog: pytest.LogCaptureFixture, event: Event
) -> None:
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


def test_a_thousand_troubles_do_not_silence_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The most recent problems are remembered; a new one is always logged."""
    logbook = EventLogger(lambda: 0.0)
    for number in range(3_000):
        logbook(refused(f"k{number}:9092"))
    assert len(caplog.records) == 3_000
    logbook(refused("k2500:9092"))
    assert len(caplog.records) == 3_000
    assert len(logbook._met) == 1000


@pytest.mark.parametrize(("wrong", "level"), [(True, logging.WARNING), (False, logging.INFO)])
def test_a_source_left_alone_is_no_warning(
    caplog: pytest.LogCaptureFixture, wrong: bool, level: int
) -> None:
    """Only a mistake is a warning; a source nobody asked to commit is an information."""
    why = SourceIgnored(
        query="q", run_id="r", source=1, problem="p", cause="c", fix="f", misconfigured=wrong
    )
    assert told(caplog, why) == [(level, "query q, source 1: p. Cause: c. Fix: f")]


def test_a_batch_is_logged_as_far_as_it_matters(caplog: pytest.LogCaptureFixture) -> None:
    """Batches that went well are not logged; a replay, an accepted loss and a failure are."""
    at = {"query": "flights", "run_id": "r", "batch_id": 7}
    well = BatchApplied(
        **at,  # type: ignore[arg-type]  # names and types are those of the three events
        sink="table delays",
        rows=12,
        dead_letters=0,
        ranges={},
        replayed={},
        gaps={},
        skipped={},
        attempts=1,
        seconds=0.2,
    )
    lines = told(
        caplog,
        well,
        replace(well, gaps={P0: OffsetRange(5, 7), P1: OffsetRange(1, 2)}, attempts=2),
        replace(well, dead_letters=3),
        replace(well, attempts=2),
        replace(well, skipped={P0: OffsetRange(0, 5)}),
        BatchReplayed(**at, sink="table delays", discarded=True),  # type: ignore[arg-type]  # as above
        BatchFailed(
            **at,  # type: ignore[arg-type]  # as above
            sink=None,
            error="GapError",
            problem="a gap",
            cause="a cause",
            fix="a fix",
        ),
        QueryStateLost(**at, sink="table delays"),  # type: ignore[arg-type]  # as above
    )
    levels = ["WARNING", "INFO", "INFO", "WARNING", "INFO", "ERROR", "WARNING"]
    assert [logging.getLevelName(level) for level, _ in lines] == levels
    assert lines[1][1].endswith("12 rows and 3 dead letters")
    assert lines[0][1].startswith(
        "query flights, batch 7: table delays applied 12 rows, in attempt 2"
    )
    assert "3 offsets" in lines[0][1]
    assert "t-0 5..7, t-1 1..2" in lines[0][1]
    assert "nothing was written" in lines[4][1]
    assert lines[5][1].endswith("GapError: a gap. Cause: a cause. Fix: a fix")


def test_what_is_wrong_with_events_is_reported_with_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Events that come twice or never are warnings, a query's kind is an information."""
    at = {"query": "flights", "run_id": "r"}
    twice, never, noticed = told(
        caplog,
        ProgressEventsDuplicated(**at, batch_id=3),
        ProgressEventsMissed(**at, after_batch=3, before_batch=7),
        QueryModeDetected(**at, mode="continuous", effect="some seconds later"),
    )
    assert [level for level, _ in (twice, never, noticed)] == [
        logging.WARNING,
        logging.WARNING,
        logging.INFO,
    ]
    assert "batch 3 arrived more than once" in twice[1]
    assert "removeListener" in twice[1]
    assert "between batches 3 and 7" in never[1]


def test_records_of_one_kind_have_one_template(caplog: pytest.LogCaptureFixture) -> None:
    """Tools that group lines do it by `msg` and `funcName`; the values stand in `args`."""
    other = replace(failed("UNKNOWN_MEMBER_ID"), group="h")
    told(caplog, failed(), other, committed(), InternalError(where="here", problem="KeyError"))
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
