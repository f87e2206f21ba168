"""The ledgers of a Delta table from outside: what is said of them, and of a RESTORE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession

from eo_listener.model import exit_codes
from eo_listener.model.errors import RetriableSinkError, SettingsError, SinkError
from eo_listener.model.ledger import LedgerKey, StoredLedger
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.delta import DeltaSink
from eo_listener.sinks.delta.batch_records import QueryState
from eo_listener.sinks.delta.commits import Commit
from eo_listener.sinks.delta.connection import Connection
from eo_listener.sinks.delta.ledger import TakenBackBy
from eo_listener.sinks.delta.ledger_reader import DeltaLedgerReader
from eo_listener.spark.jvm import delta_log
from eo_listener.spark.session.local_spark import LocalSpark
from eo_listener.testing.made_up_entries import QUERY, entry_of, plan_of
from tests import delta_lake
from tests.cli.checkpoint_files import QUERY_ID, CheckpointFiles
from tests.cli.commands import ended_apart, run_apart, run_here, under_permissions
from tests.sinks.delta.test_ledger import Log

TP = TopicPartition("flights", 0)
PLACE = "/lake/delays"
KEY = LedgerKey(PLACE, "q")

Reading = Callable[..., DeltaLedgerReader]


class OpenLog:
    """A log in memory, as a connection has it."""

    def __init__(self, log: Log) -> None:
        self._log, self._ledger = log, log.ledger()
        self.newest = log.newest

    def commit(self, version: int) -> Commit | None:
        return self._log.commit(version)

    def states(self) -> Mapping[str, QueryState]:
        return self._ledger.states(self.newest)

    def taken_back_by(self, query: str) -> TakenBackBy | None:
        return self._ledger.taken_back_by(self.newest, query)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    """A reader of a log in memory, or of none."""

    def make(log: Log | None, query: str | None = None, place: str = PLACE) -> DeltaLedgerReader:
        found = None if log is None else OpenLog(log)
        monkeypatch.setattr(Connection, "log", lambda *_: found)
        monkeypatch.setattr(LocalSpark, "session", lambda _: object())
        return DeltaLedgerReader(place, LocalSpark({}, delta=True), query=query)

    return make


def test_all_queries_of_a_table(reading: Reading) -> None:
    """With the history that the log still has, also over a RESTORE."""
    log = Log()
    log.add("CREATE TABLE")
    first = log.batch()
    log.batch("other")
    log.batch()
    log.restore(first)
    log.batch()
    reader = reading(log)
    found = reader.ledgers()
    assert found.keys() == {KEY, LedgerKey(PLACE, "other")}
    assert found[KEY].heads[TP].range.until == 3
    assert found[KEY].taken_back is None
    assert found[KEY].moved_at.keys() == {TP}
    assert [one.head.range.until for one in reader.history(KEY)] == [1, 3]
    assert [one.verdict for one in reader.history(KEY)] == ["first", "next"]
    del log.files[first]
    assert list(reading(log).history(KEY)) == []


def test_a_restore_is_said_with_the_command(reading: Reading) -> None:
    """Also one to before the first batch."""
    log = Log()
    empty = log.add("CREATE TABLE")
    log.batch()
    last = log.batch()
    log.restore(empty)
    stored = reading(log).ledgers()[KEY]
    assert stored.heads == {}
    assert stored.taken_back is not None
    assert stored.taken_back.fix == f"RESTORE TABLE delta.`{PLACE}` TO VERSION AS OF {last}"


def test_a_ledger_in_doubt_is_said_in_the_words_of_the_sink(reading: Reading) -> None:
    """Where another query is asked for, it is that one's alone."""
    log = Log(first=7)
    log.numbers = {"q": 5}
    log.add()
    for query in (None, "q"):
        with pytest.raises(SinkError, match=r"has applied cannot be known: .*was cleaned"):
            reading(log, query).ledgers()
    unknown = StoredLedger(key=KEY, heads={}, moved_at={})
    assert reading(log, "third").ledgers() == {KEY: unknown}  # it is there all the same
    log.batch("other")
    found = reading(log, "other").ledgers()
    assert found.keys() == {KEY, LedgerKey(PLACE, "other")}
    assert found[KEY] == unknown


@pytest.mark.parametrize(
    ("log", "place", "said"),
    [
        (
            None,
            PLACE,
            "no Delta table at /lake/delays.*may not look into its folder",
        ),
        (None, "lake.delays", "there is no Delta table lake.delays.*delta:/PATH"),
        (Log(), PLACE, "Delta table at /lake/delays has no ledger: no batch of a sink"),
    ],
)
def test_a_table_without_a_ledger(log: Log | None, place: str, said: str, reading: Reading) -> None:
    """Or none at all: each with what to type."""
    if log is not None:
        log.add("CREATE TABLE")
    with pytest.raises(SettingsError, match=said):
        reading(log, place=place).ledgers()


def test_a_storage_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says what may be missing here that the query has, such as the jar of a file system."""

    def away(*_: object) -> NoReturn:
        raise RetriableSinkError("Delta table at s3a://b/d cannot be read", cause="ClassNotFound")

    monkeypatch.setattr(Connection, "log", away)
    monkeypatch.setattr(LocalSpark, "session", lambda _: object())
    with pytest.raises(RetriableSinkError, match=r"ClassNotFound.*a jar.*--spark-conf KEY=VALUE"):
        DeltaLedgerReader("s3a://b/d", LocalSpark({})).ledgers()


def write(delta: SparkSession, path: Path, checkpoint: CheckpointFiles, number: int) -> None:
    """Batch `number`, of one row, as a query does it."""
    sink = DeltaSink(path=str(path))
    heads = sink.applied(QUERY) if number else {}
    ranges = {TP: OffsetRange(number, number + 1)}
    entry = replace(entry_of(heads, ranges, batch_id=number), query_id=QUERY_ID)
    checkpoint.plan(number, {TP: number + 1})
    frame = delta.sql(f"SELECT 'flights' topic, 0 partition, {number}L offset, 'a' word")
    sink.apply(frame, entry, plan_of(entry))
    checkpoint.commit(number)


@pytest.mark.spark
@pytest.mark.slow
def test_a_restored_table_is_named_and_repaired_by_the_command(
    delta: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the table no longer has is counted; after the statement that is printed, none is."""
    monkeypatch.setattr(delta_log, "session_here", lambda: delta)
    monkeypatch.setattr(LocalSpark, "session", lambda _: delta)
    path, checkpoint = tmp_path / "delays", CheckpointFiles(tmp_path / "c", {TP: 0})
    command = ("audit", "-c", checkpoint.folder, "--ledger", f"delta:{path}")
    for number in range(2):
        write(delta, path, checkpoint, number)
    assert run_here(capsys, *command)[0] == 0
    delta.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 1")
    files = sorted(one.name for one in (path / "_delta_log").iterdir())
    code, document = run_here(capsys, *command)
    assert sorted(one.name for one in (path / "_delta_log").iterdir()) == files
    (finding,) = (one for one in document["findings"] if one["severity"] == "problem")
    assert (code, document["lost"], finding["kind"]) == (1, 1, "ledger behind")
    assert "version 3 restored the table to version 1" in finding["cause"]
    delta.sql(finding["fix"].partition("; or")[0])
    assert run_here(capsys, *command)[0] == 0
    code, shown = run_here(capsys, "ledger", "show", f"delta:{path}", "--history", 9)
    (ledger,) = shown["ledgers"]
    assert (code, ledger["taken_back"], ledger["heads"][0]["next_offset"]) == (0, None, 2)
    assert [(one["next_offset"], one["rows"]) for one in ledger["history"]] == [(1, 1), (2, 1)]


@pytest.mark.spark
@pytest.mark.slow
def test_the_command_by_itself(delta: SparkSession, tmp_path: Path) -> None:
    """In a process of its own, with Delta Lake by its jars; the statement it prints is run."""
    jars = ",".join(map(str, delta_lake.jars()))
    path, checkpoint = tmp_path / "delays", CheckpointFiles(tmp_path / "c", {TP: 0})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta_log, "session_here", lambda: delta)
        for number in range(2):
            write(delta, path, checkpoint, number)
    delta.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 1")
    given = ("--spark-conf", f"spark.jars={jars}")
    command = ("audit", "-c", checkpoint.folder, "--ledger", "delta:./delays", *given)
    code, document = run_apart(tmp_path, *command)
    (finding,) = (one for one in document["findings"] if one["severity"] == "problem")
    assert (code, finding["kind"]) == (1, "ledger behind")
    delta.sql(finding["fix"].partition("; or")[0])
    code, document = run_apart(tmp_path, *command)
    assert (code, document["verdict"]) == (0, "nothing lost, nothing doubled, nothing to act on")
    left = {one.name for one in tmp_path.iterdir()} - {"artifacts"}  # Spark 4.0 leaves that, empty
    assert left == {"c", "delays"}


@pytest.mark.spark
@pytest.mark.slow
def test_a_table_that_may_not_be_read(delta: SparkSession, tmp_path: Path) -> None:
    """It could not be reached: 3, and it is a right that is missing, not a setting of Spark's."""
    path, checkpoint = tmp_path / "delays", CheckpointFiles(tmp_path / "c", {TP: 0})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta_log, "session_here", lambda: delta)
        write(delta, path, checkpoint, 0)
    given = ("--spark-conf", f"spark.jars={','.join(map(str, delta_lake.jars()))}")
    (path / "_delta_log").chmod(0)
    command = ("ledger", "show", f"delta:{path}", *given)
    ended = ended_apart(tmp_path, *command, before=under_permissions())
    (path / "_delta_log").chmod(0o755)
    assert ended.returncode == exit_codes.UNREACHABLE, ended.stderr
    *_, last = ended.stderr.splitlines()
    assert last.startswith(f"eo-listener: Delta table at {path} cannot be read. Cause: ")
    assert last.endswith("Fix: Give the user of this command the right to read the table")
