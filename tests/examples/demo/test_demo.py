"""The whole demo as a newcomer runs it: a process, its output and its exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from examples.demo import flights
from tests.broker import parse_rows
from tests.conftest import kafka_version
from tests.documents.terminal import shown
from tests.examples.demo.program import DEMO, PATIENCE, Demo
from tests.processes import finished
from tests.spark_session import submit_environment

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def document_of(running: Demo, *, rows: int, kills: int = 0, seconds: float = PATIENCE) -> Any:
    """The document of a demo that has ended well, with what must stand in it."""
    assert running.ending(seconds=seconds)[0] == 0, (running.lines, running.errors)
    assert running.left() == []
    (line,) = running.lines
    document = json.loads(line)
    assert document["passed"] is document["drained"] is True
    assert document["produced"] == document["counted"] == rows
    assert {row.lag for row in parse_rows(document["kafka_consumer_groups"])} == {0}
    assert not Path(document["folder"]).exists()
    proof = document["proof"]
    if proof is not None:
        assert (proof["duplicates"], proof["gaps"], len(proof["kills"])) == (0, 0, kills)
        for one in proof["partitions"]:
            assert one["group"] == one["ledger"] == one["checkpoint"] == one["log_end"]
            assert one["rows"] == one["records"] == one["log_end"]
    return document


def test_json_says_that_the_group_stands_at_the_end_of_the_log() -> None:
    """All rows arrive, Kafka's own tool says lag 0, and stdout holds one document, nothing else."""
    with Demo("--rows", "5000", "--rate", "0", "--json") as running:
        document = document_of(running, rows=5000)
        assert [check["passed"] for check in document["checks"]] == [True, True, True]
        assert document["commits"] >= 1
        rows = parse_rows(document["kafka_consumer_groups"])
        assert sorted(row.partition for row in rows if row.partition is not None) == [0, 1, 2, 3]
        assert sum(row.current_offset or 0 for row in rows) == 5000
        printed = "".join(running.errors)
        assert "5,000 of 5,000 produced" in printed
        assert "\x1b" not in printed
        assert "WARN" not in printed  # Spark's own noise


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("sink", "kills"), [("sqlite", 1), ("postgres", 2), ("kafka", 1)])
def test_killed_in_mid_batch_each_flight_is_in_the_sink_once(sink: str, kills: int) -> None:
    """SIGKILL in the middle of a batch: the proof holds, and no process lives on."""
    chaos = ("--chaos", "--kills", str(kills))
    with Demo("--rows", "4000", "--rate", "0", "--json", "--sink", sink, *chaos) as running:
        document_of(running, rows=4000, kills=kills, seconds=500.0)
        assert "driver killed in batch" in "".join(running.errors)


@pytest.mark.slow
@pytest.mark.timeout(800)
def test_the_whole_year_with_four_kills() -> None:
    """The default size at full speed: Spark starts five times."""
    with Demo("--rate", "0", "--json", "--sink", "sqlite", "--chaos") as running:
        document_of(running, rows=336_776, kills=4, seconds=600.0)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["starting Kafka: waiting", "starting Spark", "replaying"])
def test_ctrl_c_ends_all_of_it(moment: str, tmp_path: Path) -> None:
    """130 and one line, whenever it comes and however often; no process and no file stays."""
    options = ("--rate", "500", "--sink", "postgres", "--chaos")
    with Demo(*options, TMPDIR=str(tmp_path)) as running:
        running.await_text(moment, PATIENCE)
        for _ in range(3):
            os.killpg(running.pid, signal.SIGINT)
        assert running.ending(seconds=PATIENCE)[0] == 130
        assert running.left() == []
        (line,) = running.errors
        assert line.startswith("demo: stopped")
        assert [*tmp_path.iterdir()] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "victim", ["org.apache.spark.deploy.SparkSubmit", "examples.demo.job", "kafka.Kafka"]
)
def test_a_part_that_dies_ends_the_demo(victim: str, tmp_path: Path) -> None:
    """One line that names a log which is there, exit status 3; the other parts end too."""
    with Demo("--rate", "500", TMPDIR=str(tmp_path)) as running:
        running.await_text("replaying", PATIENCE)
        running.kill_one(victim)
        assert running.ending(seconds=PATIENCE)[0] == 3
        assert running.left() == []
        (line,) = running.errors
        assert Path(line.strip().rpartition("log: ")[2]).stat().st_size > 0


@pytest.mark.slow
def test_it_is_seen_on_a_terminal_and_kept_until_ctrl_c(tmp_path: Path) -> None:
    """Bars and both readings of the group; then table and proof; then a group that is there."""
    options = ("--rows", "2000", "--rate", "0", "--sink", "sqlite", "--keep")

    heard: list[str] = []

    def watch(text: str) -> bool:
        before = "until Ctrl-C" in "".join(heard)
        heard.append(text)
        return not before and "until Ctrl-C" in "".join(heard)

    words = [*DEMO, "--kafka-version", kafka_version(), *options]
    own = {**submit_environment(), "TMPDIR": str(tmp_path)}
    ended = shown(words, columns=140, lines=50, folder=Path(), environment=own, watch=watch)
    said = ended.text
    assert ended.status == 0, said
    for part in ("produced", "processed", "committed", "kafka-consumer-groups, "):
        assert part in said, said
    after = said.partition("Kafka's own tool reports:")[2]
    for part in ("CURRENT-OFFSET", "checkpoint", "duplicates 0", "gaps 0", "PASSED in"):
        assert part in after, said
    assert "WARN" not in said
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("arguments", [["--rows", "0"], ["--sink", "oracle"], ["--chaos"]])
def test_wrong_options_are_refused_before_anything_starts(arguments: list[str]) -> None:
    """Exit status 2."""
    answer = finished([*DEMO, *arguments])
    assert answer.returncode == 2
    assert arguments[0] in answer.stderr
    assert "starting" not in answer.stdout


def test_the_command_line_does_not_load_spark() -> None:
    """The query has a process of its own: the help and a wrong option do not wait for pyspark."""
    program = "import sys, examples.demo.__main__; sys.exit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_every_flight_is_there() -> None:
    """The year 2013 of three airports, by departure, as the schema of the query reads it."""
    read = flights.load()
    assert len(read) == flights.TOTAL == 336_776
    assert Counter(flight.origin for flight in read) == {
        "EWR": 120_835,
        "JFK": 111_279,
        "LGA": 104_662,
    }
    assert sum(flight.dep_delay is None for flight in read) == 8_255
    assert read[0].scheduled == min(flight.scheduled for flight in read) == "2013-01-01T10:15Z"
    types = dict(part.split() for part in flights.SCHEMA.split(", "))
    python = {"string": str, "int": int}
    for flight in read[::1000]:
        fields = json.loads(flight.to_json())
        assert list(fields) == list(types)
        for name, value in fields.items():
            assert value is None or type(value) is python[types[name]]
