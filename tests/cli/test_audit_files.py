"""`eo-listener audit` without a cluster: a checkpoint and a store, and how the command ends."""

from __future__ import annotations

import json
import resource
import shlex
import sqlite3
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from eo_listener import cli
from eo_listener.audit.evidence import AppliedRange, LogFacts
from eo_listener.audit.intervals import Intervals
from eo_listener.audit.position_finding import PositionFindingKind
from eo_listener.audit.proof import AuditFindingKind, prove
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.sqlite.ledger_reader import SqliteLedgerReader
from eo_listener.testing.made_up_entries import entry_of
from tests.cli.checkpoint_files import QUERY_ID, CheckpointFiles
from tests.cli.commands import invoke, run_here
from tests.cli.sqlite_ledger import Store

TP = TopicPartition("flights", 0)

Audit = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def checkpoint(tmp_path: Path) -> CheckpointFiles:
    """Batches 0 and 1 are committed, up to offset 20."""
    return CheckpointFiles(tmp_path / "c", {TP: 0}, {TP: 10}, {TP: 20})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Both are applied."""
    made = Store(tmp_path / "s.db")
    first = entry_of({}, {TP: OffsetRange(0, 10)})
    heads = made.write(replace(first, query_id=QUERY_ID))
    second = entry_of(heads, {TP: OffsetRange(10, 20)}, batch_id=1)
    made.write(replace(second, query_id=QUERY_ID))
    return made


@pytest.fixture
def audit(capsys: pytest.CaptureFixture[str]) -> Audit:
    """Run the command in this process: its exit code, and its document."""
    return lambda *words: run_here(capsys, "audit", *words)


def kinds(document: dict[str, Any]) -> set[str]:
    """What was found and is to be acted on."""
    found = document["findings"]
    return {one["kind"] for one in found if one["severity"] in ("warning", "problem")}


def test_a_checkpoint_and_a_store_that_agree(
    checkpoint: CheckpointFiles, store: Store, audit: Audit
) -> None:
    """Exit 0, and the positions of each partition; also with a batch in doubt."""
    where = ["-c", checkpoint.folder, "--ledger", store.address]
    code, document = audit(*where)
    assert (code, kinds(document), document["lost"]) == (0, set(), 0)
    (row,) = document["partitions"]
    assert (row["topic"], row["committed"], row["planned"]) == ("flights", 20, 20)
    (ledger,) = row["ledgers"]
    assert (ledger["sink"], ledger["query"], ledger["offset"]) == ("delays", "flights", 20)
    checkpoint.plan(2, {TP: 30})
    code, document = audit(*where)
    assert (code, document["partitions"][0]["planned"]) == (0, 30)
    assert "batch in doubt" in {one["kind"] for one in document["findings"]}
    printed = invoke("audit", *where).stdout
    assert " 20 (30) " in printed
    assert "in parentheses" in printed


def older_copy(files: CheckpointFiles, store: Store) -> None:
    """The checkpoint is put back, and the query started once with no new records."""
    files.forget(1)
    files.plan(1, {TP: 25})


def latest(files: CheckpointFiles, store: Store) -> None:
    """The checkpoint is deleted, and the scheduler starts the query at the latest offset."""
    store.execute("UPDATE eo_ledger SET query_id = 'older'")
    files.begin_again({TP: 26})
    files.plan(0, {TP: 30})


def earliest(files: CheckpointFiles, store: Store) -> None:
    """The same at the earliest offset, planned up to the ledger's position."""
    store.execute("UPDATE eo_ledger SET query_id = 'older'")
    files.begin_again({TP: 0})
    files.plan(0, {TP: 20})


def without_a_partition(files: CheckpointFiles, store: Store) -> None:
    """The plan no longer reads a partition that the ledger has."""
    files.plan(2, {TP._replace(partition=1): 5})


def copied_while_it_ran(files: CheckpointFiles, store: Store) -> None:
    """Batch 2 has no commit, and Spark goes on with batch 3, which begins after it."""
    files.plan(2, {TP: 30})
    files.plan(3, {TP: 40})


def copied_in_part(files: CheckpointFiles, store: Store) -> None:
    """Spark cannot start without offsets/N-1."""
    files.plan(2, {TP: 30})
    (files.folder / "offsets" / "1").unlink()


def copied_without_the_last_but_one(files: CheckpointFiles, store: Store) -> None:
    """Nor if all batches are committed, and none is planned."""
    (files.folder / "offsets" / "0").unlink()


def copied_without_a_batch(files: CheckpointFiles, store: Store) -> None:
    """Nor if its commit is missing too; with asynchronous progress tracking files have holes."""
    files.plan(3, {TP: 30})


def poisoned(files: CheckpointFiles, store: Store) -> None:
    """Each start fails at the batch that was planned hours ago."""
    files.plan(2, {TP: 30}, ago=3 * 3600)


def second_sink_put_back(files: CheckpointFiles, store: Store) -> None:
    """Only the first of two sinks in a file has a batch of this checkpoint."""
    store.execute(
        "INSERT INTO eo_ledger SELECT format, 'b', query, topic, \"partition\", topic_id, 0, 10, "
        "0, 'older', run_id, moved_at FROM eo_ledger"
    )


def accepted_too_far(files: CheckpointFiles, store: Store) -> None:
    """A gap that was mistyped: nothing of the log will come to its end."""
    words = ["ledger", "accept", store.address, "--sink", "delays", "--query", "flights"]
    words += ["--partition", str(TP), "--gap", "20..41000", "--watch", "0.1", "--execute"]
    with redirect_stdout(StringIO()):
        assert not cli.app(words, standalone_mode=False)


@pytest.mark.parametrize(
    ("change", "kind", "lost", "query"),
    [
        (older_copy, "batch refused", 0, None),
        (latest, "batch refused", 0, None),  # the ledger may be another query's
        (latest, "batch refused", 6, "flights"),
        (earliest, "batch refused", 0, None),
        (without_a_partition, "batch refused", 0, None),
        (copied_while_it_ran, "batches skipped", 10, None),
        (copied_in_part, "checkpoint damaged", 0, None),
        (copied_without_the_last_but_one, "checkpoint damaged", 0, None),
        (copied_without_a_batch, "checkpoint damaged", 0, None),
        (poisoned, "batch in doubt", 0, None),
        (second_sink_put_back, "ledger behind", 0, None),  # as above
        (second_sink_put_back, "ledger behind", 10, "flights"),
        (accepted_too_far, "batch refused", 0, None),
    ],
)
def test_a_query_that_will_not_start(
    change: Callable[[CheckpointFiles, Store], None],
    kind: str,
    lost: int,
    query: str | None,
    checkpoint: CheckpointFiles,
    store: Store,
    audit: Audit,
) -> None:
    """The command names the reason and the loss, from the files and the ledger alone."""
    change(checkpoint, store)
    where = ["-c", checkpoint.folder, "--ledger", store.address]
    code, document = audit(*where, *([] if query is None else ["--query", query]))
    assert (code, document["lost"]) == (1, lost), document
    assert kind in kinds(document)


def test_a_new_query_beside_others_is_not_accused(
    tmp_path: Path, store: Store, audit: Audit
) -> None:
    """Of several ledgers of its topic none is taken for its own before its first batch."""
    store.write(replace(entry_of({}, {TP: OffsetRange(0, 10)}), query="other", query_id="x"))
    files = CheckpointFiles(tmp_path / "new", {TP: 0})
    files.plan(0, {TP: 10})
    (files.folder / "metadata").write_text(json.dumps({"id": QUERY_ID.replace("0f8c", "aaaa")}))
    assert audit("-c", files.folder, "--ledger", store.address)[0] == 0


def test_a_cut_file(checkpoint: CheckpointFiles, audit: Audit) -> None:
    """It is named; the batch before it counts."""
    (checkpoint.folder / "offsets" / "1").write_text("v1\n{")
    code, document = audit("-c", checkpoint.folder)
    assert (code, kinds(document)) == (1, {"checkpoint damaged"})
    assert document["partitions"][0]["committed"] == 10


def test_a_query_of_another_name_is_repaired_by_the_command(
    checkpoint: CheckpointFiles, store: Store, audit: Audit, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is found by the id in the checkpoint; the ledger is carried over."""
    where = ["-c", checkpoint.folder, "--ledger", store.address, "--query", "renamed"]
    code, document = audit(*where)
    (finding,) = (one for one in document["findings"] if one["severity"] == "problem")
    assert (code, finding["kind"]) == (1, PositionFindingKind.LEDGER_RENAMED.value)
    named, renamed, back = finding["fix"].split("; or")
    assert "--query flights" in named  # it may be the audit that was given a wrong name
    assert "name='flights'" in back
    command = renamed.removeprefix(", if it was renamed, ")
    words = [*shlex.split(command)[1:], "--watch", "0.1", "--execute"]
    assert not cli.app(words, standalone_mode=False)
    capsys.readouterr()
    assert audit(*where)[0] == 0


def test_a_history_that_was_edited(store: Store, audit: Audit) -> None:
    """Offsets that no batch has any more are missing."""
    store.execute("UPDATE eo_ledger_history SET start_offset = 13 WHERE start_offset = 10")
    code, document = audit("--ledger", store.address)
    assert (code, len(kinds(document)), document["lost"]) == (1, 1, 3)
    store.execute("UPDATE eo_ledger SET next_offset = 60")  # a head without a batch that ends there
    assert audit("--ledger", store.address)[1]["lost"] == 43


@pytest.mark.parametrize(
    "line",
    [
        "-c {checkpoint} --ledger {store}-absent",
        "-c sftp://somebody:hidden@host/c --ledger {store}",  # no driver of this storage is there
        "--ledger {store} --rows",  # without Kafka nothing that a table lacks could be explained
        pytest.param("-c {checkpoint} -b 127.0.0.1:1 -g g", marks=pytest.mark.slow),
    ],
)
def test_what_is_away_leaves_the_rest(
    line: str, checkpoint: CheckpointFiles, store: Store, audit: Audit
) -> None:
    """Exit 3, and said once; the rest is judged all the same. No password of a URL is shown."""
    code, document = audit(*line.format(checkpoint=checkpoint.folder, store=store.address).split())
    assert (code, document["complete"]) == (3, False)
    assert [one["kind"] for one in document["findings"]].count("not read") == 1
    assert document["partitions"]
    assert "hidden" not in json.dumps(document)


def test_people_see_a_table_and_a_verdict(
    checkpoint: CheckpointFiles, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """Findings with cause and fix, the verdict last; nothing is cut where it is no terminal."""
    checkpoint.plan(2, {TP: 45})
    checkpoint.commit(2)
    words = ["audit", "-c", str(checkpoint.folder), "--ledger", store.address]
    assert cli.app(words, standalone_mode=False) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("verdict: 25 records ")
    assert {line.split()[0] for line in lines if line.startswith("  ")} >= {"cause:", "fix:"}
    assert any("flights-0" in line and "45" in line and "20" in line for line in lines)


def test_names_are_never_obeyed_by_a_terminal(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name of a query is whatever somebody has chosen."""
    store.execute("UPDATE eo_ledger SET query = 'a' || char(27) || '[2Jb[/red]'")
    cli.app(["audit", "--ledger", store.address], standalone_mode=False)
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "query a\\x1b[2Jb[/red]" in text


_PARTITIONS = 8
_COLUMNS = ("topic", "partition", "offset")


class WholeLog:
    """A log of this many records a partition, every one of which a consumer is shown."""

    def __init__(self, records: int) -> None:
        self._facts = LogFacts(
            start=0, stable=records, end=records, compacted=False, transactional=False
        )

    def facts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogFacts]:
        return dict.fromkeys(partitions, self._facts)

    def visible(
        self, partition: TopicPartition, ranges: Intervals, *, committed: bool
    ) -> Intervals:
        return ranges


def fill(path: Path, each: int) -> None:
    """As batches come: all partitions in turns, so that no partition's rows lie together."""
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA synchronous = OFF")
        made.execute('CREATE TABLE delays (topic TEXT, "partition" INT, "offset" INT)')
        for start in range(0, each, 1000):
            rows = (
                ("flights", number, offset)
                for number in range(_PARTITIONS)
                for offset in range(start, min(start + 1000, each))
            )
            made.executemany("INSERT INTO delays VALUES (?, ?, ?)", rows)
        made.execute('DELETE FROM delays WHERE "partition" = 3 AND "offset" IN (7, 8, 500)')
        made.execute('INSERT INTO delays SELECT * FROM delays WHERE "partition" = 1 LIMIT 2')
        made.commit()


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


@pytest.mark.parametrize(
    "rows", [80_000, pytest.param(10_000_000, marks=pytest.mark.slow)], ids=["some", "ten million"]
)
def test_rows_are_counted_in_bounded_memory(rows: int, tmp_path: Path) -> None:
    """Three are lost and two doubled; the store sorts, and no list of the rows is made."""
    each = rows // _PARTITIONS
    fill(tmp_path / "many.db", each)
    tps = [TopicPartition("flights", number) for number in range(_PARTITIONS)]
    claims = dict.fromkeys(tps, AppliedRange(range=OffsetRange(0, each)))
    with closing(SqliteLedgerReader(tmp_path / "many.db")) as reader:
        begun = time.perf_counter()
        reader.connection().execute("SELECT count(*) FROM delays").fetchone()
        counted, before = time.perf_counter(), peak()
        found = prove(claims, reader.row_origins("delays", _COLUMNS), WholeLog(each))
        print(  # noqa: T201  # for who measures it, with -s
            f"{rows:,} rows: count(*) {counted - begun:.1f} s, proof "
            f"{time.perf_counter() - counted:.1f} s, {(peak() - before) >> 20} MB more"
        )
    sizes: dict[AuditFindingKind, int] = {}
    for one in found:
        sizes[one.kind] = sizes.get(one.kind, 0) + one.range.until - one.range.start
    assert sizes == {AuditFindingKind.MISSING: 3, AuditFindingKind.DUPLICATE: 2}
    assert peak() - before < 64 << 20
