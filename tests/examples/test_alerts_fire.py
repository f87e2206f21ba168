"""The alerts fire and clear: by promtool, and in a real Prometheus that scrapes a driver's numbers.

There the rules' minutes are seconds. The driver is ours but for Spark and Kafka: its tracker gets
the text of progress events, its committer has groups in memory, its sink is one in memory.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.policy import Backoff
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.commit.tracking.tracker_thread import TrackerThread
from eo_listener.model.errors import GapError, KafkaError
from eo_listener.model.observers import Observers
from eo_listener.model.offsets import Position, TopicPartition
from eo_listener.model.progress import Progress
from eo_listener.observers.metrics import open_metrics
from eo_listener.testing import MemoryGroups, MemoryQueries, MemorySink
from tests.examples.monitoring import FOLDER, commands, faster
from tests.foreach_batch.stage import P0, Plans, Stage
from tests.prometheus_server import PrometheusServer, programs, prometheus

pytestmark = pytest.mark.slow

_TIMES = 60  # a minute of the rules is a second
_LONGEST = 90.0  # seconds for an alert to fire, or to clear, on a busy machine
OPTIONS = {0: {"kafka.bootstrap.servers": "k:9092", "kafka.consumer.commit.groupid": "g"}}


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "alerts.yml"),
        ("test", "rules", "alerts_test.yml"),
        ("test", "rules", "alerts_days_test.yml"),
    ],
    ids=" ".join,
)
def test_promtool_agrees(arguments: tuple[str, ...]) -> None:
    """The files are what Prometheus takes, and each alert fires and clears when it should."""
    answer = subprocess.run(
        [programs() / "promtool", *arguments],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "SUCCESS" in answer.stdout


class Driver:
    """A driver with one query, whose batches a thread reports five times a second.

    `step` are the records of a batch, `left` those that it leaves in the log.
    """

    def __init__(self) -> None:
        self.metrics = open_metrics(0)
        self.port = self.metrics.port or 0
        self.store = MemoryGroups()
        self.step, self.left = 10, 0
        self._end, self._batch, self._run = 0, 0, "run-1"
        observers = Observers(self.metrics)
        retry = Backoff(first=0.1, longest=0.4, refused_first=0.1, refused_longest=0.4)
        self._committer = Committer(lambda cluster: self.store, observers=observers, retry=retry)
        self._tracker = TrackerThread(
            GroupRouting(), MemoryQueries(OPTIONS), self._committer, observers
        )
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._report, name="batches")

    def start(self) -> None:
        """Begin to report batches."""
        self._thread.start()

    def close(self) -> None:
        """End it in order."""
        self._ended.set()
        self._thread.join()
        self._tracker.close(time.monotonic() + 5)
        self._committer.close(5)
        self.metrics.close()

    def skip(self, records: int) -> None:
        """Let the next batch begin behind where the one before it ended."""
        with self._lock:
            self._end += records

    def restart(self) -> None:
        """End the run, and begin another one of the same query."""
        with self._lock:
            self._tracker.ended(self._run)
            self._run = "run-2"

    def _report(self) -> None:
        while not self._ended.wait(0.2):
            with self._lock:
                start, self._end = self._end, self._end + self.step
                self.store.ends[P0] = self._end + self.left
                self._tracker.progressed(Progress.parse(self._event(start)))
                self._batch += 1

    def _event(self, start: int) -> str:
        source = {
            "description": "KafkaV2[Subscribe[t]]",
            "startOffset": {"t": {"0": start}},
            "endOffset": {"t": {"0": self._end}},
            "latestOffset": {"t": {"0": self._end + self.left}},
        }
        return json.dumps(
            {
                "id": "query-1",
                "runId": self._run,
                "name": "flights",
                "timestamp": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                "batchId": self._batch,
                "numInputRows": self.step,
                "durationMs": {"triggerExecution": 50, "latestOffset": 1},
                "sources": [source],
            }
        )


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    made.start()
    yield made
    made.close()


@pytest.fixture
def server(driver: Driver, tmp_path: Path) -> Iterator[PrometheusServer]:
    """It scrapes the driver four times a second, and has seen a healthy one for a while."""
    (tmp_path / "alerts.yml").write_text(faster(_TIMES))
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "250ms", "evaluation_interval": "250ms"}
    config["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{driver.port}"]}]
    with prometheus(tmp_path, yaml.safe_dump(config), lookback="5s") as running:
        until(lambda: bool(running.query("eo_listener_query_lag_seconds == 0")))
        time.sleep(8)  # longer than any alert takes that a healthy driver might raise
        assert running.firing() == {}
        yield running


def until(condition: Callable[[], bool]) -> None:
    """Wait for it."""
    deadline = time.monotonic() + _LONGEST
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def fires(server: PrometheusServer, name: str) -> str:
    """Wait until the alert fires; return what it says, which is whole and has commands."""
    until(lambda: name in server.firing())
    said = server.firing()[name]["annotations"]
    text = f"{said['summary']}\n{said['description']}"
    assert "error expanding" not in text
    assert "<no value>" not in text
    assert commands(said["description"])
    return text


def clears(server: PrometheusServer, name: str) -> None:
    """Wait until it fires no more."""
    until(lambda: name not in server.firing())


def test_commits_that_fail(driver: Driver, server: PrometheusServer) -> None:
    """Kafka refuses each commit, until somebody gives the right; the alert names Kafka's error."""

    def refuse(group: str, positions: Any) -> dict[TopicPartition, str | None]:
        return dict.fromkeys(positions, "GROUP_AUTHORIZATION_FAILED")

    driver.store.faults.extend([refuse] * 100_000)
    said = fires(server, "EoListenerCommitsFail")
    assert "GROUP_AUTHORIZATION_FAILED." in said
    assert "eo-listener status g -b k:9092" in said
    driver.store.faults.clear()
    clears(server, "EoListenerCommitsFail")


def test_lag_by_time(driver: Driver, server: PrometheusServer) -> None:
    """Batches leave more behind each time, and then take all there is."""
    driver.left = 100
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(driver, "step", 0)  # batches that get nowhere
        assert "flights" in fires(server, "EoListenerQueryFallsBehind")
    driver.left = 0
    clears(server, "EoListenerQueryFallsBehind")


def test_a_gap_that_the_guard_finds(driver: Driver, server: PrometheusServer) -> None:
    """The source is withheld until the query is restarted."""
    driver.skip(5)
    assert "(gap)" in fires(server, "EoListenerBatchesDoNotContinue")
    fires(server, "EoListenerSourceWithheld")
    driver.restart()
    clears(server, "EoListenerSourceWithheld")
    clears(server, "EoListenerBatchesDoNotContinue")


def test_a_batch_that_its_sink_refuses(driver: Driver, server: PrometheusServer) -> None:
    """Once in the life of the driver, so that its counter appears as 1."""
    stage = Stage(Plans({0: {P0: (0, 3)}, 1: {P0: (7, 9)}}), [MemorySink()])
    stage.run(0)
    with pytest.raises(GapError):
        stage.run(1)
    for event in stage.events:
        driver.metrics(event)
    assert "flights failed: GapError" in fires(server, "EoListenerSinkBatchFailed")
    clears(server, "EoListenerSinkBatchFailed")


def test_somebody_else_commits(driver: Driver, server: PrometheusServer) -> None:
    """Another offset is in the group, which the driver finds when it reads it after a failure."""

    def lost(group: str, positions: Any) -> None:
        driver.store.groups["g"][P0] = Position(offset=driver.store.ends[P0] - 1, metadata="a tool")
        raise KafkaError("no answer", code="REQUEST_TIMED_OUT")

    driver.store.faults.append(lost)
    fires(server, "EoListenerSomebodyElseCommits")
    clears(server, "EoListenerSomebodyElseCommits")


def test_a_driver_that_does_not_answer(driver: Driver, server: PrometheusServer) -> None:
    """Its port is closed, and opened again."""
    driver.metrics.close()
    fires(server, "EoListenerTargetDown")
    driver.metrics.serve(driver.port)
    clears(server, "EoListenerTargetDown")


def test_the_page_of_an_alert_that_needs_no_driver(tmp_path: Path) -> None:
    """Without any target it says so, in words that make sense without one."""
    (tmp_path / "alerts.yml").write_text(faster(_TIMES))
    config = {
        "global": {"evaluation_interval": "250ms"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [],
    }
    with prometheus(tmp_path, yaml.safe_dump(config), lookback="5s") as running:
        assert "No metrics from any driver" in fires(running, "EoListenerTargetDown")
