"""The lakehouse runs as its README says, and its tables are what the events say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from eo_listener.devtools.broker import Broker
from examples.lakehouse.events import events
from examples.lakehouse.produce import create_topics, produce
from tests import iceberg_jars
from tests.attack import faults
from tests.attack.faults import Fault
from tests.spark_session import submit_environment

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1300),
    pytest.mark.skipif(not iceberg_jars.jars(), reason="Iceberg has no runtime for this Spark"),
]

ROOT = Path(__file__).parents[2]
EQUAL = "All tables are equal to the events."


def run(
    module: str, *arguments: object, crash_log: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one of its programs to its end; with a log it dies between the tables of a batch."""
    crash = {"sink.committed": Fault(do="fell")}
    armed = {} if crash_log is None else faults.environment(crash, crash_log)
    return subprocess.run(
        [sys.executable, "-m", f"examples.lakehouse{module}", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        cwd=ROOT,
        env={**submit_environment(), **armed},
    )


def test_one_command_runs_all(tmp_path: Path) -> None:
    """With a Kafka of its own; the numbers are those of the events, and it says so."""
    answer = run("", "--flights", 300, "--folder", tmp_path / "lake")
    assert answer.returncode == 0, answer.stderr[-3000:]
    assert answer.stdout.strip().endswith(EQUAL)
    found = dict(line.split(" rows, ")[0].split() for line in answer.stdout.splitlines()[-4:-1])
    assert found["lake.air.flights"] == "300"
    assert int(found["lake.raw.flights"]) > 900


def test_maintained_between_two_runs_each_event_is_there_once(
    broker: Broker, tmp_path: Path
) -> None:
    """A dry run changes nothing; then files are few, and both jobs go on where they were."""
    servers, lake = broker.bootstrap_servers, tmp_path / "lake"
    half = len(events(150)) // 2
    create_topics(servers)
    for first, until in ((0, half), (half, None)):
        produce(servers, 150, first, until)
        for job in (".stream_write_raw", ".upsert_enriched"):
            answer = run(job, servers, lake, "--once")
            assert answer.returncode == 0, answer.stderr[-3000:]
        dry = run(".maintain", lake, "--expire-after-hours", 0)
        assert dry.returncode == 0, dry.stderr[-3000:]
        done = run(".maintain", lake, "--expire-after-hours", 0, "--execute")
        assert done.returncode == 0, done.stderr[-3000:]
        assert "rewritten_data_files_count" in done.stdout
        assert "rewritten_data_files_count" not in dry.stdout
    equal = run(".compare", lake, 150)
    assert equal.stdout.strip().endswith(EQUAL), equal.stdout + equal.stderr[-3000:]


def test_killed_between_two_tables_each_event_is_there_once(broker: Broker, tmp_path: Path) -> None:
    """Each job dies where its first table has a batch and the other has not, which is seen."""
    servers, lake = broker.bootstrap_servers, tmp_path / "lake"
    assert run(".produce", servers, 150).returncode == 0
    for job in (".stream_write_raw", ".upsert_enriched"):
        log = tmp_path / f"log{job}"
        assert run(job, servers, lake, "--once", crash_log=log).returncode < 0
        assert "sink.committed 1 fell" in log.read_text()
        differs = run(".compare", lake, 150)
        assert (differs.returncode, "The tables differ" in differs.stdout) == (1, True)
        answer = run(job, servers, lake, "--once")
        assert answer.returncode == 0, answer.stderr[-3000:]
    equal = run(".compare", lake, 150)
    assert equal.stdout.strip().endswith(EQUAL), equal.stdout + equal.stderr[-3000:]
