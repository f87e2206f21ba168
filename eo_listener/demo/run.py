"""The demo from its first process to its last."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Final, TextIO

from eo_listener import broker
from eo_listener.broker.record import Record
from eo_listener.demo import flights
from eo_listener.demo.outcome import Outcome
from eo_listener.demo.processes import sweep
from eo_listener.demo.producer import Replay, create_topic
from eo_listener.demo.query import FlightsQuery
from eo_listener.demo.screen import output_to, shown
from eo_listener.demo.settings import TOPIC, DemoSettings
from eo_listener.demo.stage import Stage
from eo_listener.demo.verdict import judge
from eo_listener.demo.watch import GroupView, ToolView, Watch
from eo_listener.errors import UnavailableError

LOG: Final = "demo.log"
STALL: Final = 60.0  # seconds without any progress after which the wait for lag 0 is given up
_SPARK_START: Final = 900.0  # seconds; the first time the Kafka connector is downloaded
_LOOK: Final = 0.1  # seconds between two looks at how far it is
_OUR_PAUSE, _JAVA_PAUSE = 0.5, 4.0  # seconds between two looks at the group; Java's takes 2


def run(settings: DemoSettings, stream: TextIO) -> Outcome:
    """Run the demo, showing on `stream` how it goes; nothing it started is left at the end.

    With `keep` the broker is left, unless an error or Ctrl-C ended it all. What Spark said is
    left, and named, when it failed. To be called in the main thread, once in a process. Raises
    KeyboardInterrupt after Ctrl-C, when all has ended, and the errors of the parts.
    """
    stage = Stage(wanted=min(settings.rows or flights.TOTAL, flights.TOTAL))
    with _interrupted_once(stage):
        folder = Path(tempfile.mkdtemp(prefix="eo-demo-"))
        keep_folder = False
        kept: Record | None = None
        try:
            with shown(stream, stage.snapshot), output_to(folder / LOG):
                outcome = _on_a_broker(settings, folder, stage)
                kept = outcome.kept
                stage.say("done")
            keep_folder = kept is not None or not outcome.verdict.passed
            return replace(outcome, logs=folder / LOG if keep_folder else None)
        except UnavailableError:
            keep_folder = (folder / LOG).stat().st_size > 0  # its errors name this file
            raise
        finally:
            sweep({node.pid for node in kept.nodes} if kept else ())
            if not keep_folder:
                shutil.rmtree(folder, ignore_errors=True)


def _on_a_broker(settings: DemoSettings, folder: Path, stage: Stage) -> Outcome:
    node = broker.Broker(
        version=settings.kafka_version,
        data=folder / "broker" if settings.keep else None,
        on_progress=lambda news: stage.say(f"starting Kafka: {news}"),
    )
    with node:
        outcome = _stream(settings, node.bootstrap_servers, folder, stage)
        if not settings.keep:
            return outcome
        record = node.record()
        record.write()
        node.detach()
    return replace(outcome, kept=record)


def _stream(settings: DemoSettings, servers: str, folder: Path, stage: Stage) -> Outcome:
    """All between the broker's start and its end."""
    stage.say(f"making the topic {TOPIC} with {settings.partitions} partitions")
    create_topic(servers, TOPIC, settings.partitions)
    stage.group = group = GroupView(servers, settings.partitions)
    stage.tool = tool = ToolView(servers, settings.kafka_version)
    query = FlightsQuery(servers, folder / "checkpoint", folder / LOG, stage.tally, stage.observe)
    with contextlib.ExitStack() as parts:
        parts.callback(query.stop)
        stage.say("starting Spark (the first time it downloads the Kafka connector)")
        query.start()
        rows = flights.load()[: stage.wanted]
        _await(query)
        stage.replay = replay = Replay(servers, TOPIC, rows, key=settings.key, rate=settings.rate)
        parts.callback(replay.stop)
        watches = (
            Watch("demo-group", group.look, _OUR_PAUSE),
            Watch("demo-tool", tool.look, _JAVA_PAUSE),
        )
        for watch in watches:
            watch.start()
            parts.callback(watch.stop)
        drained = _replay(replay, query, stage)
        stage.say("lag 0: stopping the query and Spark" if drained else "stopping Spark")
        query.stop()
        for watch in watches:
            watch.stop()
    stage.say("asking Kafka's own kafka-consumer-groups for its final word")
    table = tool.ask()
    group.look()
    return Outcome(
        settings=settings,
        verdict=judge(
            tool.rows,
            topic=TOPIC,
            partitions=settings.partitions,
            produced=replay.produced,
            counted=stage.tally.counted,
        ),
        servers=servers,
        table=table,
        last=stage.snapshot(),
        drained=drained,
    )


def _await(query: FlightsQuery) -> None:
    if not query.wait_until_running(_SPARK_START):
        raise UnavailableError(
            f"Spark did not start within {_SPARK_START:.0f} s", fix=f"Read its log: {query.log}"
        )


def _replay(replay: Replay, query: FlightsQuery, stage: Stage) -> bool:
    """Produce all rows, then wait for the group to reach the log ends; say whether it did."""
    stage.say("the first flights are in Kafka: waiting for Spark's first batch")
    replay.start()
    deadline = time.monotonic() + STALL
    while not stage.tally.counted and time.monotonic() < deadline:
        query.check()
        replay.check()
        time.sleep(_LOOK)
    stage.say("replaying the flights of 2013")
    replay.go_on()
    while not replay.done:
        query.check()
        time.sleep(_LOOK)
    replay.check()
    stage.say("all flights are in Kafka: waiting for lag 0")
    return _drained(query, stage)


def _drained(query: FlightsQuery, stage: Stage) -> bool:
    """Wait for lag 0 for as long as the group moves; say whether it was reached."""
    reached, deadline = -1, 0.0
    while not _is_drained(stage):
        query.check()
        committed = stage.snapshot().committed
        if committed > reached:
            reached, deadline = committed, time.monotonic() + STALL
        elif time.monotonic() > deadline:
            return False
        time.sleep(_LOOK)
    return True


def _is_drained(stage: Stage) -> bool:
    """Whether a look at the group that saw all rows in the logs found lag 0."""
    seen = stage.snapshot()
    in_logs = sum(row.log_end or 0 for row in seen.partitions)
    return in_logs >= seen.produced and seen.lag == 0


@contextlib.contextmanager
def _interrupted_once(stage: Stage) -> Iterator[None]:
    """Let the first Ctrl-C (or SIGTERM) end the demo, and further ones not disturb that end."""
    signals = (signal.SIGINT, signal.SIGTERM)

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        stage.say("Ctrl-C: ending the query, Spark, the producer and Kafka")
        raise KeyboardInterrupt

    previous = {each: signal.signal(each, interrupt) for each in signals}
    try:
        yield
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)
