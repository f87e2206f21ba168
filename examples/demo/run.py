"""The demo from its first process to its last."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Final, TextIO

from eo_listener.model.errors import EoListenerError, UnavailableError
from examples.demo import flights
from examples.demo.demo_settings import LOG, TOPIC, DemoSettings
from examples.demo.demo_target import require_reachable
from examples.demo.group_readings import OurReading, Repeater, ToolReading
from examples.demo.pipeline import DemoPipeline, Query, prepared
from examples.demo.processes import sweep
from examples.demo.producer import Replay, create_topic
from examples.demo.screen import output_to, shown
from examples.demo.snapshot import Scoreboard
from examples.demo.summary import DemoSummary
from tests.broker import Broker
from tests.broker.errors import BrokerError
from tests.broker.releases import Release

STALL: Final = 180.0  # seconds without progress; a start of Spark never takes that long
_BREAK_OFF: Final = 5.0  # seconds for a part to end in order after a failure or Ctrl-C
_SPARK_START: Final = 900.0  # seconds; the first time the Kafka connector is downloaded
_POLL: Final = 0.1  # seconds between two checks of the progress
_OUR_PAUSE, _JAVA_PAUSE = 0.5, 4.0  # seconds between two reads of the group; Java's takes 2


def run(settings: DemoSettings, stream: TextIO) -> DemoSummary:
    """Run the demo, showing on `stream` how it goes; nothing it started is left at the end.

    With `keep` the broker is left, unless an error or Ctrl-C ended it all. The folder with the
    logs is left, and named, when the demo failed. To be called in the main thread, once in a
    process. Raises KeyboardInterrupt after Ctrl-C, when all has ended, and EoListenerError.
    """
    Release(version=settings.kafka_version)
    require_reachable(settings)  # both before anything is started, or said to be
    scoreboard = Scoreboard(wanted=min(settings.rows or flights.TOTAL, flights.TOTAL))
    with _interrupted_once(scoreboard):
        folder = Path(tempfile.mkdtemp(prefix="eo-demo-"))
        keep_folder = False
        spared: frozenset[int] = frozenset()
        try:
            with shown(stream, scoreboard.snapshot), output_to(folder / LOG):
                outcome = _on_a_broker(settings, folder, scoreboard)
                scoreboard.say("done")
            if outcome.kept is not None:
                spared = frozenset(node.pid for node in outcome.kept.nodes)
            keep_folder = outcome.kept is not None or not outcome.verdict.passed
            return replace(outcome, folder=folder if keep_folder else None)
        except Exception as error:
            explained = _explained(error, folder / LOG)
            keep_folder = str(folder) in str(explained)
            if explained is error:
                raise
            raise explained from error
        finally:
            sweep(spared)
            if not keep_folder:
                shutil.rmtree(folder, ignore_errors=True)


def _explained(error: Exception, log: Path) -> EoListenerError:
    """Return an error for people: `error` itself, with the log to read where it gives no advice.

    What is not an EoListenerError was not foreseen: its traceback goes into the log.
    """
    if not isinstance(error, EoListenerError):
        with log.open("a", encoding="utf-8") as opened:
            traceback.print_exception(error, file=opened)
        return UnavailableError(
            "The demo failed",
            cause=f"{type(error).__name__}: {error}".partition("\n")[0],
            fix=f"Read its log: {log}",
        )
    if error.fix is None and log.exists() and log.stat().st_size:
        error.fix = f"Read the demo's log: {log}"
    return error


def _on_a_broker(settings: DemoSettings, folder: Path, scoreboard: Scoreboard) -> DemoSummary:
    node = Broker(
        version=settings.kafka_version,
        data=folder / "broker",
        java_options=(f"-Djava.io.tmpdir={folder}",),  # a killed JVM leaves files there
        on_progress=lambda news: scoreboard.say(f"starting Kafka: {news}"),
    )
    with node:
        try:
            with prepared(settings, node.bootstrap_servers, folder, scoreboard) as pipeline:
                outcome = _stream(settings, node, pipeline, scoreboard)
        except BaseException:
            node.kill()  # nobody reads its data again: no reason to be polite
            raise
        if not settings.keep:
            node.kill()
            return outcome
        record = node.record()
        record.write()
        node.detach()
    return replace(outcome, kept=record)


def _stream(
    settings: DemoSettings, node: Broker, pipeline: DemoPipeline, scoreboard: Scoreboard
) -> DemoSummary:
    """All between the broker's start and its end."""
    servers, query = node.bootstrap_servers, pipeline.query
    scoreboard.say(f"making the topic {TOPIC} with {settings.partitions} partitions")
    create_topic(servers, TOPIC, settings.partitions)
    scoreboard.ours = ours = OurReading(servers, settings.partitions)
    scoreboard.theirs = theirs = ToolReading(servers, settings.kafka_version)
    with contextlib.ExitStack() as parts:
        parts.callback(query.stop, _BREAK_OFF)
        scoreboard.say("starting Spark (the first time it downloads the Kafka connector)")
        query.start()
        rows = flights.load()[: scoreboard.wanted]
        _await(query)
        scoreboard.replay = replay = Replay(
            servers, TOPIC, rows, key=settings.key, rate=settings.rate
        )
        parts.callback(replay.stop)
        readings = (
            Repeater("demo-ours", ours.read, _OUR_PAUSE),
            Repeater("demo-theirs", theirs.read, _JAVA_PAUSE),
            *pipeline.readings,
        )
        for reading in readings:
            reading.start()
            parts.callback(reading.stop, _BREAK_OFF)
        drained = _replay(node, replay, pipeline, scoreboard)
        scoreboard.say("lag 0: stopping the query and Spark" if drained else "stopping Spark")
        query.stop()
        for reading in readings:
            reading.stop()
    scoreboard.say("asking Kafka's own kafka-consumer-groups for its final word")
    _require_running(node)
    table = _last_table(theirs, drained=drained)
    ours.read()
    verdict, proof = pipeline.judge(theirs.rows, settings.partitions, replay.produced)
    return DemoSummary(
        settings=settings,
        verdict=verdict,
        proof=proof,
        servers=servers,
        table=table,
        last=scoreboard.snapshot(),
        drained=drained,
    )


def _last_table(theirs: ToolReading, *, drained: bool) -> str:
    """Ask Kafka's own tool. A group that nobody ever committed to does not exist: no table then."""
    try:
        return theirs.ask()
    except BrokerError as error:
        if drained:
            raise
        return f"{error}\n"


def _await(query: Query) -> None:
    if not query.wait_until_running(_SPARK_START):
        raise UnavailableError(
            f"Spark did not start within {_SPARK_START:.0f} s", fix=f"Read its log: {query.log}"
        )


def _replay(node: Broker, replay: Replay, pipeline: DemoPipeline, scoreboard: Scoreboard) -> bool:
    """Produce all rows, then wait for the group to reach the log ends; say whether it did."""

    def pause() -> None:
        """Raise what has ended Kafka, the query or the producer, else wait a moment."""
        _require_running(node)
        pipeline.query.check()
        replay.check()
        pipeline.step()
        time.sleep(_POLL)

    scoreboard.say("the first flights are in Kafka: waiting for Spark's first batch")
    replay.start()
    deadline = time.monotonic() + STALL
    while not scoreboard.results.counted and time.monotonic() < deadline:
        pause()
    scoreboard.say("replaying the flights of 2013")
    replay.go_on()
    while not replay.done:
        pause()
    replay.check()
    scoreboard.say("all flights are in Kafka: waiting for lag 0")
    return _drained(scoreboard, pause)


def _require_running(node: Broker) -> None:
    if not node.pids:
        raise BrokerError(
            "Kafka has ended by itself",
            cause="its process is gone",
            fix=f"Read its log: {node.log()}",
        )


def _drained(scoreboard: Scoreboard, pause: Callable[[], None]) -> bool:
    """Wait for lag 0 for as long as the group moves; say whether it was reached."""
    reached, deadline = -1, 0.0
    while not _is_drained(scoreboard):
        committed = scoreboard.snapshot().committed
        if committed > reached:
            reached, deadline = committed, time.monotonic() + STALL
        elif time.monotonic() > deadline:
            return False
        pause()
    return True


def _is_drained(scoreboard: Scoreboard) -> bool:
    """Whether the group had lag 0 when all rows were in the logs."""
    snapshot = scoreboard.snapshot()
    in_logs = sum(row.log_end or 0 for row in snapshot.partitions)
    return in_logs >= snapshot.produced and snapshot.lag == 0


@contextlib.contextmanager
def _interrupted_once(scoreboard: Scoreboard) -> Iterator[None]:
    """Let the first Ctrl-C (or SIGTERM) end the demo, and further ones not disturb that end."""
    signals = (signal.SIGINT, signal.SIGTERM)

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        scoreboard.say("Ctrl-C: ending the query, Spark, the producer and Kafka")
        raise KeyboardInterrupt

    previous = {each: signal.signal(each, interrupt) for each in signals}
    try:
        yield
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)
