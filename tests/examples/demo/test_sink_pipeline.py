"""The demo with a sink: the driver is killed again and again, and each flight is there once."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.examples.demo.program import PATIENCE, Demo, demo, on_a_terminal
from tests.postgres_server import dsn, postgres

__all__ = ["dsn", "postgres"]  # fixtures

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SMALL = ("--rows", "4000", "--rate", "0", "--json")


def proved(running: Demo, *, rows: int, kills: int, seconds: float = PATIENCE) -> dict[str, Any]:
    """The document of a demo that has ended well, with what must stand in it."""
    assert running.end(seconds) == 0, (running.out, running.err)
    assert running.left() == []
    (line,) = running.out
    document: dict[str, Any] = json.loads(line)
    assert all(check["passed"] for check in document["checks"])
    assert document["produced"] == document["counted"] == rows
    proof: dict[str, Any] = document["proof"]
    assert (proof["duplicates"], proof["gaps"], len(proof["kills"])) == (0, 0, kills)
    for one in proof["partitions"]:
        assert one["group"] == one["ledger"] == one["checkpoint"] == one["log_end"] == one["rows"]
    assert "\x1b" not in "".join(running.err)
    return document


@pytest.mark.slow
def test_killed_in_mid_batch_each_flight_is_in_sqlite_once() -> None:
    """SIGKILL in the middle of a batch: the proof holds, and no process lives on."""
    with demo(*SMALL, "--sink", "sqlite", "--chaos", "--kills", "1") as running:
        document = proved(running, rows=4000, kills=1)
        assert all(kill["caught"] for kill in document["proof"]["kills"])
        assert "driver killed in batch" in "".join(running.err)


@pytest.mark.slow
def test_killed_in_mid_batch_each_flight_is_in_postgres_once() -> None:
    """The same with a PostgreSQL of the demo's own, which is gone afterwards."""
    with demo(*SMALL, "--sink", "postgres", "--chaos", "--kills", "2") as running:
        proved(running, rows=4000, kills=2)


@pytest.mark.slow
def test_killed_in_mid_batch_each_flight_is_in_the_topic_once() -> None:
    """From Kafka to Kafka, beside a reader that is shown whole batches in order at any time."""
    with demo(*SMALL, "--sink", "kafka", "--chaos", "--kills", "1") as running:
        document = proved(running, rows=4000, kills=1)
        reader = document["proof"]["reader"]
        assert reader["faults"] == {}
        assert reader["batches"] > 1
        assert reader["rounds"] > reader["batches"]
        names = [check["name"] for check in document["checks"]]
        assert {"batches whole", "order of each partition kept"} <= set(names)


@pytest.mark.slow
def test_a_database_of_the_users_is_left_as_it_was(dsn: str) -> None:
    """The demo makes a schema, and drops it; its password is told to nobody."""
    schemas = "SELECT nspname FROM pg_namespace ORDER BY 1"
    with psycopg.connect(dsn) as link:
        before = link.execute(schemas).fetchall()
    with demo(*SMALL, "--sink", "postgres", EO_LISTENER_DEMO_DSN=dsn) as running:
        proved(running, rows=4000, kills=0)
    with psycopg.connect(dsn) as link:
        assert link.execute(schemas).fetchall() == before


@pytest.mark.slow
@pytest.mark.timeout(800)
def test_the_whole_year_with_four_kills() -> None:
    """The default size at full speed: Spark starts five times."""
    with demo("--rate", "0", "--json", "--sink", "sqlite", "--chaos") as running:
        proved(running, rows=336_776, kills=4, seconds=600.0)


@pytest.mark.slow
def test_a_terminal_shows_the_proof(tmp_path: Path) -> None:
    """The table of the proof and the checks; what is kept is where it says."""
    arguments = ("--rows", "2000", "--rate", "0", "--sink", "sqlite", "--chaos", "--kills", "1")
    status, said = on_a_terminal(*arguments, TMPDIR=str(tmp_path))
    assert status == 0, said
    assert "each flight exactly once into SQLite" in said
    after = said.partition("What is in the table")[2]
    for heading in ("checkpoint", "missing", "duplicates 0", "gaps 0", "PASSED in"):
        assert heading in after, said
    assert [*tmp_path.iterdir()] == []


@pytest.mark.slow
def test_kept_the_database_can_be_looked_at(tmp_path: Path) -> None:
    """With --keep the file of SQLite stays, with all rows in it."""
    with demo(*SMALL, "--sink", "sqlite", "--keep", TMPDIR=str(tmp_path)) as running:
        assert running.end() == 0, running.err
        document = json.loads(running.out[0])
        (file,) = tmp_path.glob("*/flights.sqlite")
        assert str(file) in document["proof"]["place"]
        with closing(sqlite3.connect(file)) as connection:
            assert connection.execute("SELECT count(*) FROM flights").fetchone() == (4000,)


@pytest.mark.slow
def test_ctrl_c_in_the_middle_of_it() -> None:
    """130, one line, and neither a driver nor a PostgreSQL lives on."""
    with demo("--rate", "500", "--sink", "postgres", "--chaos") as running:
        running.wait_for("replaying")
        os.killpg(running.process.pid, signal.SIGINT)
        assert running.end() == 130
        assert running.left() == []
        line = running.only_error()
        assert line.startswith("eo-listener: stopped")


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["org.apache.spark.deploy.SparkSubmit", "examples.demo.job"])
def test_a_driver_that_dies_unasked_ends_the_demo(victim: str, tmp_path: Path) -> None:
    """One line that names a log which is there, exit status 3; the other parts end too."""
    with demo("--rate", "500", "--sink", "sqlite", TMPDIR=str(tmp_path)) as running:
        running.wait_for("replaying")
        running.kill(victim)
        assert running.end() == 3
        assert running.left() == []
        line = running.only_error()
        assert line.startswith("eo-listener: ")
        assert "log: " in line


def test_a_server_that_is_not_there_is_named() -> None:
    """Before anything is started, in one line without the password."""
    nowhere = "postgresql://me:geheim@127.0.0.1:1/x"
    with demo("--sink", "postgres", EO_LISTENER_DEMO_DSN=nowhere) as running:
        assert running.end() == 3
        assert running.out == []
        line = running.only_error()
        assert "PostgreSQL could not be reached" in line
        assert "geheim" not in "".join([*running.err, *running.out])
