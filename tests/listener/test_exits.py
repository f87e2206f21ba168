"""However a program ends, it ends soon, cleanly, and with the group where the query was."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.groups import total
from tests.topics import Topics, unique

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PROGRAM = Path(__file__).with_name("program.py")
ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """Run the program to its end, and give the seconds from its last line to its exit."""
    command = [sys.executable, "-W", "error::ResourceWarning", "-m", "tests.listener.program"]
    answer = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=120, cwd=ROOT, check=False
    )
    now = time.time()
    ended = [line for line in answer.stdout.splitlines() if line.startswith("END ")]
    assert ended, answer.stderr[-3000:]
    return answer, now - float(ended[0].split()[1])


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("nothing", 0),
        pytest.param("query-only", 0, marks=pytest.mark.slow),
        pytest.param("spark-only", 0, marks=pytest.mark.slow),
        pytest.param("query-then-spark", 0, marks=pytest.mark.slow),
        pytest.param("close-first", 0, marks=pytest.mark.slow),
        pytest.param("close-last", 0, marks=pytest.mark.slow),
        pytest.param("error", 7, marks=pytest.mark.slow),
        pytest.param("interrupt", -2, marks=pytest.mark.slow),
    ],
)
def test_every_order_of_ending(
    ending: str, code: int, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    """All that was processed is committed, nothing is complained of, and nothing lingers."""
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 300)
    answer, seconds = run(broker.bootstrap_servers, topic, group, str(tmp_path), ending)
    said = answer.stderr
    assert answer.returncode == code, said[-3000:]
    if ending != "interrupt":  # a KeyboardInterrupt has its own
        assert "Traceback" not in said
    assert "eo_listener ERROR" not in said
    assert "eo_listener WARNING" not in said
    assert seconds < 15.0
    assert total(broker.bootstrap_servers, group) == 300


@pytest.mark.slow
def test_a_query_whose_session_was_stopped_holds_nobody_up(
    broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    """Spark tells of no end then: the query in the next session commits all that it has read."""
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 10)
    answer, _ = run(broker.bootstrap_servers, topic, group, str(tmp_path), "another-session")
    assert answer.returncode == 0, answer.stderr[-3000:]
    assert answer.stdout.count("FLUSHED True") == 2, answer.stderr[-3000:]
    assert total(broker.bootstrap_servers, group) == 50


@pytest.mark.slow
def test_a_dead_kafka_holds_up_no_end(broker: Broker, topics: Topics, tmp_path: Path) -> None:
    """With nobody at the address the program ends within its flush time, and names the loss."""
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 300)
    answer, seconds = run(
        broker.bootstrap_servers, topic, group, str(tmp_path), "query-then-spark", "127.0.0.1:1"
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    assert seconds < 20.0
    (line,) = [one for one in answer.stderr.splitlines() if "eo_listener ERROR" in one]
    assert all(f"{topic}-{partition}" in line for partition in range(3))
    assert "Traceback" not in answer.stderr
