"""The lakehouse runs as its README says, and its tables are what the events say."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.lakehouse.events import NEW_FIELD, events
from examples.lakehouse.produce import create_topics, produce
from examples.lakehouse.settings import FLIGHTS, WEATHER
from tests import iceberg_jars
from tests.attack import faults
from tests.attack.durable import Durable
from tests.attack.faults import Fault
from tests.broker import Broker
from tests.processes import finished
from tests.spark_session import submit_environment
from tests.topics import Topics
from tests.waiting import until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1300),
    pytest.mark.skipif(not iceberg_jars.jars(), reason="Iceberg has no runtime for this Spark"),
]

ROOT = Path(__file__).parents[2]
EQUAL = "All tables are equal to the events."
JOBS = (".stream_write_raw", ".upsert_enriched")
BETWEEN = {"sink.committed": Fault(do="fell")}  # a batch's first table has it, the other has not


@pytest.fixture
def servers(broker: Broker) -> Iterator[str]:
    """A Kafka without the topics of the lakehouse."""
    yield broker.bootstrap_servers
    topics = Topics(broker.bootstrap_servers)
    for name in (FLIGHTS, WEATHER):
        if topics.exists(name):
            topics.delete(name)


def run(
    module: str,
    *arguments: object,
    crash: dict[str, Fault] | None = None,
    log: Path | None = None,
    root: Path = ROOT,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, or to the crash, in `root`; `log` has the fault points."""
    armed = {} if log is None else faults.environment(crash or {}, log)
    own = {**submit_environment(), "PYTHONPATH": f"{root}:{ROOT}", **armed}
    command = [sys.executable, "-m", f"examples.lakehouse{module}", *arguments]
    return finished(command, timeout=400, cwd=root, env=own)


def run_well(module: str, *arguments: object, **how: Any) -> str:
    """Run one of its programs to a good end; return what it printed."""
    answer = run(module, *arguments, **how)
    assert answer.returncode == 0, answer.stderr[-3000:]
    return answer.stdout


def check_equal(lake: Path, flights: int, **how: Any) -> None:
    equal = run(".compare", lake, flights, **how)
    assert equal.stdout.strip().endswith(EQUAL), equal.stdout + equal.stderr[-3000:]


def test_one_command_runs_all(tmp_path: Path) -> None:
    """With a Kafka of its own; the numbers are those of the events, and it says so."""
    printed = run_well("", "--flights", 300, "--folder", tmp_path / "lake")
    assert printed.strip().endswith(EQUAL)
    found = dict(line.split(" rows, ")[0].split() for line in printed.splitlines()[-4:-1])
    assert found["lake.air.flights"] == "300"
    assert int(found["lake.raw.flights"]) > 900


def test_maintained_between_two_runs_each_event_is_there_once(servers: str, tmp_path: Path) -> None:
    """A dry run changes nothing; then files are few, and both jobs go on where they were."""
    lake = tmp_path / "lake"
    half = len(events(150)) // 2
    create_topics(servers)
    for first, last in ((0, half), (half, None)):
        produce(servers, 150, first, last)
        for job in JOBS:
            run_well(job, servers, lake, "--once")
        maintain = (".maintain", lake, "--expire-after-hours", 0)
        assert "rewritten_data_files_count" not in run_well(*maintain)
        assert "rewritten_data_files_count" in run_well(*maintain, "--execute")
    check_equal(lake, 150)


def test_killed_between_two_tables_each_event_is_there_once(servers: str, tmp_path: Path) -> None:
    """Each job dies where its first table has a batch and the other has not, which is seen."""
    lake = tmp_path / "lake"
    run_well(".produce", servers, 150)
    for job in JOBS:
        log = tmp_path / f"log{job}"
        assert run(job, servers, lake, "--once", crash=BETWEEN, log=log).returncode < 0
        assert "sink.committed 1 fell" in log.read_text()
        differs = run(".compare", lake, 150)
        assert (differs.returncode, "The tables differ" in differs.stdout) == (1, True)
        run_well(job, servers, lake, "--once")
    check_equal(lake, 150)


def test_a_new_field_is_a_column_while_the_job_runs(servers: str, tmp_path: Path) -> None:
    """From the batch on in which events begin to have it, without a restart; before it is null."""
    lake, sent = tmp_path / "lake", events(150)
    half = len(sent) // 2
    assert not any(NEW_FIELD in event.fields for event in sent[:half])
    assert any(NEW_FIELD in event.fields for event in sent[half:])
    create_topics(servers)
    produce(servers, 150, 0, half)
    command = [sys.executable, "-m", "examples.lakehouse.stream_write_raw", servers, str(lake)]
    with subprocess.Popen(command, cwd=ROOT, env=submit_environment()) as job:

        def await_end(records: int) -> None:
            def reached() -> bool:
                assert job.poll() is None
                kept = Durable(lake / "checkpoints" / "stream-write-raw").batches
                return bool(kept) and sum(kept[-1].ends.values()) == records

            until(reached, 200, despite=FileNotFoundError)  # Spark deletes files meanwhile

        try:
            await_end(half)
            produce(servers, 150, half)
            await_end(len(sent))
        finally:
            job.send_signal(signal.SIGINT)
            job.wait(60)
    equal = run(".compare", lake, 150)
    found = [line for line in equal.stdout.splitlines() if line.startswith("lake.raw")]
    assert all(line.endswith("equal") for line in found), equal.stdout + equal.stderr[-3000:]
    assert len(found) == 2


def test_a_new_column_is_refused_by_name_then_added(servers: str, tmp_path: Path) -> None:
    """The user is told what to type, types it, and nothing is lost, also when the job dies then."""
    lake, half = tmp_path / "lake", len(events(150)) // 2
    mine = tmp_path / "mine"
    shutil.copytree(ROOT / "examples" / "lakehouse", mine / "examples" / "lakehouse")
    create_topics(servers)
    produce(servers, 150, 0, half)
    command = (".upsert_enriched", servers, lake, "--once")
    run_well(*command)
    produce(servers, 150, half)
    edit(mine, "settings", "arr_delay int", f"arr_delay int, {NEW_FIELD} int")
    refused = run(*command, root=mine)
    assert refused.returncode == 1
    assert f"no column '{NEW_FIELD}'" in refused.stderr
    assert "new_columns=True" in refused.stderr
    edit(mine, "upsert_enriched", "keys=KEY,", "keys=KEY, new_columns=True,")
    crash = {"sink.begun": Fault(do="fell")}  # the other table has the batch already
    assert run(*command, root=mine, crash=crash, log=tmp_path / "log").returncode < 0
    run_well(*command, root=mine)
    run_well(".stream_write_raw", servers, lake, "--once")
    check_equal(lake, 150, root=mine)


def edit(root: Path, module: str, old: str, new: str) -> None:
    """Change a program as its user does."""
    file = root / "examples" / "lakehouse" / f"{module}.py"
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
