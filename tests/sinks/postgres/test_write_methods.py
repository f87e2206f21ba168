"""Which write method a batch takes, what executors need for it, and what they leave behind."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import psycopg
import pytest
from pyspark.sql import SparkSession

from eo_listener.errors import RetriableSinkError, SettingsError, SinkError
from eo_listener.sinks.postgres.executor_check import reach
from eo_listener.sinks.postgres.write_methods import Proved
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import QUERY, plan_of
from tests.sinks.chapters.store import once
from tests.sinks.postgres.course import (
    ALL_TABLES,
    STAGES,
    USAGE,
    WRITE_METHODS,
    Database,
    next_entry,
    trigger,
    write,
)
from tests.sinks.programs import ROOT, run_program
from tests.spark_session import submit_environment
from tests.waiting import until

pytestmark = [pytest.mark.spark]

Roles = Callable[..., Database]


def test_only_attempts_that_succeeded_are_moved(spark: SparkSession, db: Database) -> None:
    """Rows that another attempt has left in the staging table do not reach the target."""
    sink = db.sink(write_method="staging")
    db.script("CREATE TABLE t (id bigint)")

    def lost_attempt() -> None:
        (stage,) = db.ask(STAGES)
        db.script(f"INSERT INTO {stage} (id, eo_attempt) VALUES (-1, 999999)")

    with once("sink.staged", lost_attempt):
        assert write(sink, spark.range(10)).rows == 10
    assert db.ask("SELECT min(id), count(*) FROM t") == [(0, 10)]


def test_a_staging_table_that_was_emptied_is_noticed(spark: SparkSession, db: Database) -> None:
    """Rows that are missing, as after crash recovery of an unlogged table, refuse the batch."""
    sink = db.sink(write_method="staging")
    entry = next_entry(sink)

    def empty() -> None:
        (stage,) = db.ask(STAGES)
        db.script(f"TRUNCATE {stage}")

    with once("sink.staged", empty), pytest.raises(RetriableSinkError, match="logged_staging"):
        sink.apply(spark.range(10), entry, plan_of(entry))
    assert db.ask("SELECT * FROM t") == []
    assert sink.applied(QUERY) == {}
    assert sink.apply(spark.range(10), entry, plan_of(entry)).rows == 10
    assert db.ask(STAGES) == []


@WRITE_METHODS
def test_a_trigger_that_leaves_rows_out_is_named(
    spark: SparkSession, db: Database, write_method: str
) -> None:
    """Rows that the table's own trigger drops would be missing without a report."""
    body = "IF NEW.id % 2 = 0 THEN RETURN NULL; END IF; RETURN NEW;"
    db.script("CREATE TABLE t (id bigint)", *trigger(body))
    sink = db.sink(write_method=write_method)
    with pytest.raises(SinkError, match=r"5 of 10 .* Cause: a trigger"):
        write(sink, spark.range(10))
    assert db.ask("SELECT * FROM t") == []
    assert sink.applied(QUERY) == {}


def test_what_a_killed_driver_left_is_cleaned(spark: SparkSession, db: Database) -> None:
    """The next batch drops earlier staging tables, but none that is another sink's or held."""
    sink, other = (db.sink(name, write_method="staging") for name in ("t", "other"))
    left: list[str] = []

    def forget(name: str) -> None:
        if name == "sink.staged":
            left.append(db.ask(STAGES)[0])
            db.script(*(f"CREATE TABLE {left[-1]}_{n} (id int)" for n in (1, 2)))

    with hooked(forget):
        write(sink, spark.range(3))
        db.script(f"DROP TABLE {left[0]}_1, {left[0]}_2")
        write(sink, spark.range(3))
    assert db.ask(STAGES) == [f"{left[1]}_1", f"{left[1]}_2"]
    write(other, spark.range(3))
    assert len(db.ask(STAGES)) == 2
    with psycopg.connect(db.dsn) as holder:
        holder.execute(f"SELECT * FROM {left[1]}_1".encode())
        write(sink, spark.range(3))
        assert db.ask(STAGES) == [f"{left[1]}_1"]
    write(sink, spark.range(3))
    assert db.ask(STAGES) == []


def test_executors_without_python_go_by_the_driver(
    spark: SparkSession,
    db: Database,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The job that tries them fails there, and no batch does; the user's own choice is refused."""
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nonexistent/python3")
    sink = db.sink(executor_rows=1)
    for _ in range(2):
        assert write(sink, spark.range(10)).rows == 10
    assert caplog.text.count("Cannot run program") == 1
    with pytest.raises(SettingsError, match="Cannot run program"):
        write(db.sink(write_method="staging"), spark.range(10))


CREATE = "GRANT CREATE ON SCHEMA {schema} TO {role}"


@pytest.fixture
def roles(spark: SparkSession, db: Database) -> Iterator[Roles]:
    """Makes the role of a sink with so many connections, which executors write from 10 rows on."""
    write(db.sink(), spark.range(10))
    with contextlib.ExitStack() as stack:

        def make(*grants: str, limit: int = -1) -> Database:
            options = f"CONNECTION LIMIT {limit}"
            role = stack.enter_context(db.role(USAGE, ALL_TABLES, *grants, options=options))
            return replace(db, dsn=role, given={"create": False, "executor_rows": 10})

        yield make


def test_connections_that_tasks_have_kept_are_not_counted(
    spark: SparkSession, db: Database, roles: Roles
) -> None:
    """Those of the run before: the next tasks take them, or they end."""
    schema = db.schema
    cores = spark.sparkContext.defaultParallelism
    sink = roles(CREATE, limit=2 * cores + 1).sink(schema=schema)
    with contextlib.ExitStack() as kept:
        for _ in range(cores):
            kept.enter_context(sink._writer(QUERY).open())
        assert write(sink, spark.range(9), 9).rows == 9
        assert sink._method_choice._proved == Proved()
        sink.close()


def test_a_role_that_may_not_make_tables_goes_by_the_driver(
    spark: SparkSession, roles: Roles, caplog: pytest.LogCaptureFixture
) -> None:
    """Found out with the first batch and said once; "staging" is refused before any row."""
    poor = roles()
    sink = poor.sink()
    for _ in range(2):
        assert write(sink, spark.range(10)).rows == 10
    assert caplog.text.count("lacks CREATE") == 1
    with pytest.raises(SettingsError, match="lacks CREATE on schema"):
        write(poor.sink(write_method="staging"), spark.range(10))


def test_a_role_with_few_connections_goes_by_the_driver(
    spark: SparkSession, db: Database, roles: Roles, caplog: pytest.LogCaptureFixture
) -> None:
    """What tasks would open at once is counted before it is needed, and what to raise is named."""
    schema = db.schema
    poor = roles(CREATE, limit=3)
    few = poor.sink()
    assert write(few, spark.range(10)).rows == 10
    assert "CONNECTION LIMIT" in caplog.text
    few.close()
    at_work = f"SELECT pid FROM pg_stat_activity WHERE usename = 'role_{schema}'"
    until(lambda: not db.ask(at_work))  # a backend ends a moment after its connection
    bounded = poor.sink(write_method="staging", max_connections=1)
    assert write(bounded, spark.range(0, 10, 1, 4)).rows == 10
    bounded.close()
    caplog.clear()
    db.script(f"ALTER ROLE role_{schema} CONNECTION LIMIT 9")
    later = poor.sink(connect_timeout=0.3)
    assert write(later, spark.range(9), 9).rows == 9
    assert caplog.text == ""
    db.script(f"ALTER ROLE role_{schema} CONNECTION LIMIT 1")
    assert write(later, spark.range(10)).rows == 10
    assert "too many connections for role" in caplog.text
    assert "through the driver" in caplog.text


def test_executors_that_come_to_another_place(db: Database) -> None:
    """Another role, or a server that does not know the driver's connection, is found out."""
    writer = db.sink()._writer(QUERY)
    ours = db.ask("SELECT current_user, current_database(), pg_backend_pid()")[0]
    there = f"SELECT pid FROM pg_stat_activity WHERE pid = {ours[2]}"
    until(lambda: not db.ask(there))  # a backend ends a moment after its connection
    gone = reach(writer, ours)
    assert ("server" in str(gone.executors), gone.passing) == (True, False)
    assert "connect as 'postgres'" in str(reach(writer, ("else", *ours[1:])))
    with psycopg.connect(db.dsn) as link:
        assert reach(writer, (*ours[:2], link.info.backend_pid)) == Proved()
    away = replace(writer, access=replace(writer.access, dsn="host=127.0.0.1 port=1"))
    down = reach(away, ours)
    assert ("cannot connect" in str(down.executors), down.passing) == (True, True)


HEAD = """
import json, sys
from eo_listener.sinks.postgres import PostgresSink
from tests.sinks.postgres.course import next_entry
from eo_listener.testing.made_up_entries import plan_of
from tests.spark_session import builder
"""
PROGRAM = """
dsn, path = sys.argv[1:]
conf = {"spark.master": "local-cluster[2,1,1024]", "spark.executorEnv.PYTHONPATH": path}
spark = builder(conf).getOrCreate()
frame = spark.range(0, 4000, 1, 8).selectExpr("id", "spark_partition_id() AS task")
said = {}
for write_method, options in (("staging", {}), ("auto", {"executor_rows": 1}), ("driver", {})):
    options |= {"dead_letters": "dead", "write_method": write_method}
    sink = PostgresSink(dsn, write_method, **options)
    entry = next_entry(sink, 4000)
    said[write_method] = sink.apply(frame, entry, plan_of(entry)).rows
    sink.close()
print(json.dumps(said))
spark.stop()
"""


def run_apart(program: str, *words: object, timeout: float = 200) -> str:
    """Run a program with a Spark of its own; return what it prints."""
    environment = submit_environment()
    done = run_program(program, *words, environment=environment, timeout=timeout)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


@pytest.mark.slow
def test_executors_of_their_own_stage_rows(db: Database) -> None:
    """With executors in other processes each write method brings every row, once."""
    said = json.loads(run_apart(HEAD + PROGRAM, db.dsn, ROOT).splitlines()[-1])
    assert said == {"staging": 4000, "auto": 4000, "driver": 4000}
    for write_method in ("staging", "auto", "driver"):
        counts = db.ask(f"SELECT count(*), count(DISTINCT id) FROM {write_method}")
        assert counts == [(4000, 4000)]
    assert db.ask(STAGES) == []


BIG = """
dsn, write_method, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
spark = builder({"spark.driver.memory": "512m", "spark.master": "local[1]"}).getOrCreate()
# One task: what one partition of Kafka is. 2 KB a row, which no compression makes small.
wide = "concat_ws('', transform(sequence(1, 32), n -> sha2(string(id * n + 7), 256)))"
frame = spark.range(0, rows, 1, 1).selectExpr("id", f"{wide} AS wide")
sink = PostgresSink(dsn, write_method, write_method=write_method)
entry = next_entry(sink, rows)
assert sink.apply(frame, entry, plan_of(entry)).rows == rows
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("write_method", ["driver", "staging"])
def test_a_partition_larger_than_the_heap(db: Database, write_method: str) -> None:
    """One task of 820 MB goes through a JVM with a heap of 512 MB, by both write methods."""
    rows = 400_000
    run_apart(HEAD + BIG, db.dsn, write_method, rows, timeout=900)
    found = db.ask(f"SELECT count(*), sum(length(wide)) FROM {write_method}")
    assert found == [(rows, rows * 2048)]
