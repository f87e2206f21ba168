"""What is wrong with the arguments of exactly_once is said when it is called."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eo_listener import exactly_once
from eo_listener.errors import SettingsError
from eo_listener.foreach_batch.exactly_once import Batch, adapted
from eo_listener.foreach_batch.process_writes import PROCESS_WRITES
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing import MemorySink
from tests.foreach_batch.file_sink import FileSink

MODULE = sys.modules["eo_listener.foreach_batch.exactly_once"]  # the name is the function's too
TP = TopicPartition("t", 0)
PLAN = PlannedBatch(
    query_id="i",
    run_id="r",
    query="q",
    batch_id=7,
    sources={0: {TP: OffsetRange(3, 5)}},
    topic_ids={},
    log_starts={},
    log_ends={},
)


@pytest.mark.parametrize(
    ("sinks", "given", "problem"),
    [
        ([], {}, "no sink"),
        (["delays"], {}, "str is not a sink"),
        ([MemorySink(), MemorySink()], {}, "appears twice"),
        ([MemorySink()], {"on_gap": "ignore"}, "on_gap must be"),
        ([MemorySink()], {"on_first": "restart"}, "on_first must be"),
        ([MemorySink()], {"on_recreated": "yes"}, "on_recreated must be"),
        ([MemorySink()], {"name": " "}, "name is ' '"),
        ([MemorySink()], {"name": 3}, "name is 3"),
        ([MemorySink()], {"checkpoint": ""}, "checkpoint is ''"),
        ([MemorySink()], {"options": "servers"}, "options is not a mapping"),
        ([MemorySink()], {"observers": ["log"]}, "got 'log'"),
        ([MemorySink()], {"retry_timeout": -1}, "retry_timeout must .*, got -1"),
        ([MemorySink()], {"retry_timeout": "60"}, "retry_timeout must .*, got '60'"),
        ([MemorySink()], {"retry_timeout": True}, "retry_timeout must .*, got True"),
        ([MemorySink()], {"retry_timeout": float("nan")}, "retry_timeout must .*, got nan"),
        ([MemorySink()], {"transform": "sql"}, "transform 'sql' cannot be called"),
        ([MemorySink()], {"transform": lambda: None}, "takes"),
        ([MemorySink()], {"transform": lambda a, b, c: None}, "takes"),
        ([MemorySink()], {"transform": lambda *, df: None}, "takes"),
        ([MemorySink()], {"transform": lambda df, batch_id: df}, "is called batch_id"),
        ([MemorySink()], {"transform": lambda df, epochId: df}, "is called epochId"),  # noqa: N803  # as Spark's own page has it
    ],
)
def test_bad_arguments(sinks: list[Any], given: dict[str, Any], problem: str) -> None:
    """Each wrong argument is a SettingsError that says what to give."""
    with pytest.raises(SettingsError, match=problem) as raised:
        exactly_once(*sinks, **given)
    assert raised.value.fix


def one(df: Any) -> Any:
    return df, None


def two(df: Any, batch: Batch) -> Any:
    return df, batch


def defaulted(df: Any, batch: Batch | None = None) -> Any:
    return df, batch


def another_default(df: Any, limit: int = 3) -> Any:
    return df, None if limit == 3 else limit


def any_number(*frames: Any) -> Any:
    return frames[0], None if len(frames) == 1 else frames[1]


class Method:
    def make(self, df: Any, batch: Batch) -> Any:
        return df, batch


@pytest.mark.parametrize(
    ("transform", "asks"),
    [
        (one, False),
        (two, True),
        (defaulted, True),
        (another_default, False),
        (any_number, False),
        (Method().make, True),
        (lambda df, b: (df, b), True),
        (partial(one), False),
        (partial(two), True),
        (partial(defaulted, batch=None), False),
        (partial(another_default, limit=3), False),
    ],
)
def test_who_is_given_the_batch(transform: Callable[..., Any], asks: bool) -> None:
    """A transform gets the batch if it has a second parameter, or one named batch."""
    call = adapted(transform)
    assert call is not None
    frame = object()
    made, batch = call(frame, PLAN)
    assert made is frame
    if asks:
        assert (batch.id, batch.ranges, batch.frame) == (7, {TP: OffsetRange(3, 5)}, frame)
        assert "frame" not in repr(batch)
    else:
        assert batch is None


def test_it_can_be_sent_to_another_process(tmp_path: Path) -> None:
    """What exactly_once returns is pickled as its sinks are, and comes back with its settings."""
    sent = exactly_once(FileSink(tmp_path / "sink"), transform=two, name="q", on_gap="accept")
    back = pickle.loads(pickle.dumps(sent))  # noqa: S301  # made here
    assert callable(back)
    assert back.__getstate__() == {**sent.__getstate__(), "sinks": back.__getstate__()["sinks"]}
    back.close()
    sent.close()


def test_an_error_that_is_its_own_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """`raise error from error` has causes without an end; it is raised as any other is."""

    def run(*_: object) -> None:
        error = SettingsError("wrong")
        raise error from error

    once = exactly_once(MemorySink(), name="q")
    monkeypatch.setattr(once._batches, "run", run)
    monkeypatch.setattr(MODULE, "in_session_of", lambda _: nullcontext())
    with pytest.raises(SettingsError, match="wrong"):
        once(None, 0)  # type: ignore[arg-type]  # no DataFrame is needed
    once.close()


def test_a_sink_that_another_batch_uses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two queries with one sink: it writes one batch at a time."""
    monkeypatch.setattr(MODULE, "_SINK_TIMEOUT", 0.1)
    sink = MemorySink()
    second = exactly_once(sink, name="second")
    with PROCESS_WRITES.exclusive([sink], 0), pytest.raises(SettingsError, match="memory rows"):
        second(None, 0)  # type: ignore[arg-type]  # no DataFrame is needed
    second.close()
