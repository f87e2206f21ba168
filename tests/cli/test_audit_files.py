"""`eo-listener audit` without a cluster: a checkpoint and a store, and how the command ends."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eo_listener import cli
from eo_listener.audit.positions import Positions
from eo_listener.cli import audit_screen
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.testing.made_up_entries import entry_of
from tests.audit import test_position_judge as judge
from tests.cli.checkpoint_files import QUERY_ID, CheckpointFiles, StoreFile

TP = TopicPartition("flights", 0)

Audit = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def checkpoint(tmp_path: Path) -> CheckpointFiles:
    """Batches 0 and 1 are committed, up to offset 20."""
    made = CheckpointFiles(tmp_path / "c", {TP: 0})
    for batch, end in enumerate((10, 20)):
        made.plan(batch, {TP: end})
        made.commit(batch)
    return made


@pytest.fixture
def store(tmp_path: Path) -> StoreFile:
    """Both are applied."""
    made = StoreFile(tmp_path / "s.db")
    first = replace(entry_of({}, {TP: OffsetRange(0, 10)}), query_id=QUERY_ID)
    heads = made.apply(first)
    second = entry_of(heads, {TP: OffsetRange(10, 20)}, batch_id=1)
    made.apply(replace(second, query_id=QUERY_ID))
    return made


@pytest.fixture
def audit(capsys: pytest.CaptureFixture[str]) -> Audit:
    """Run the command in this process: its exit code, and its document."""

    def run(*words: object) -> tuple[int, dict[str, Any]]:
        code = cli.app(["audit", *map(str, words), "--json"], standalone_mode=False)
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return code or 0, document

    return run


def kinds(document: dict[str, Any]) -> set[str]:
    """What was found and is to be acted on."""
    return {
        one["kind"] for one in document["findings"] if one["severity"] in ("warning", "problem")
    }


def test_a_checkpoint_and_a_store_that_agree(
    checkpoint: CheckpointFiles, store: StoreFile, audit: Audit
) -> None:
    """Exit 0, and the positions of each partition."""
    code, document = audit("-c", checkpoint.folder, "--ledger", f"sqlite:{store.path}")
    assert (code, document["verdict"]) == (0, "nothing lost, nothing doubled, nothing to act on")
    (row,) = document["partitions"]
    assert (row["topic"], row["committed"], row["planned"]) == ("flights", 20, 20)
    (ledger,) = row["ledgers"]
    assert (ledger["sink"], ledger["query"], ledger["offset"]) == ("delays", "flights", 20)


def test_a_batch_in_doubt_is_fine(
    checkpoint: CheckpointFiles, store: StoreFile, audit: Audit
) -> None:
    """Planned, and not applied."""
    checkpoint.plan(2, {TP: 30})
    code, document = audit("-c", checkpoint.folder, "--ledger", f"sqlite:{store.path}")
    assert code == 0
    assert document["partitions"][0]["planned"] == 30
    assert any("will be repeated" in one["what"] for one in document["findings"])


def test_a_cut_file(checkpoint: CheckpointFiles, audit: Audit) -> None:
    """It is named; the batch before it counts."""
    (checkpoint.folder / "offsets" / "1").write_text("v1\n{")
    code, document = audit("-c", checkpoint.folder)
    assert (code, kinds(document)) == (1, {"checkpoint damaged"})
    assert document["partitions"][0]["committed"] == 10


def test_a_query_of_another_name_is_repaired_by_the_command(
    checkpoint: CheckpointFiles,
    store: StoreFile,
    audit: Audit,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is found by the id in the checkpoint; the ledger is carried over."""
    where = ["-c", checkpoint.folder, "--ledger", f"sqlite:{store.path}"]
    code, document = audit(*where, "--query", "renamed")
    assert (code, kinds(document)) == (1, {"ledger under another name"})
    (finding,) = (one for one in document["findings"] if one["severity"] == "problem")
    named, renamed, back = finding["fix"].split("; or")
    assert "--query flights" in named  # it may be the audit that was given a wrong name
    assert "name='flights'" in back
    command = renamed.removeprefix(", where it was renamed, ")
    words = [*shlex.split(command)[1:], "--watch", "0.1", "--execute"]
    assert not cli.app(words, standalone_mode=False)
    capsys.readouterr()
    assert audit(*where, "--query", "renamed")[0] == 0


def test_a_history_that_was_edited(store: StoreFile, audit: Audit) -> None:
    """Offsets that no batch has any more are missing."""
    store.execute("UPDATE eo_ledger_history SET start_offset = 13 WHERE start_offset = 10")
    code, document = audit("--ledger", f"sqlite:{store.path}")
    assert (code, kinds(document)) == (1, {"history with missing offsets"})
    assert document["lost"] == 3


def test_a_store_that_is_away_leaves_the_rest(
    checkpoint: CheckpointFiles, tmp_path: Path, audit: Audit
) -> None:
    """Exit 3, said in the verdict; the checkpoint is judged all the same."""
    code, document = audit("-c", checkpoint.folder, "--ledger", f"sqlite:{tmp_path / 'no.db'}")
    assert (code, document["complete"]) == (3, False)
    assert "INCOMPLETE" in document["verdict"]
    assert document["partitions"]


def test_a_storage_without_a_driver_leaves_the_rest(store: StoreFile, audit: Audit) -> None:
    """And the password in its URL is never said."""
    where = "sftp://somebody:hidden@host/c"
    code, document = audit("-c", where, "--ledger", f"sqlite:{store.path}")
    assert (code, document["complete"]) == (3, False)
    assert document["partitions"]
    assert "hidden" not in json.dumps(document)


@pytest.mark.slow
def test_a_cluster_that_is_away_leaves_the_rest(checkpoint: CheckpointFiles, audit: Audit) -> None:
    """It is said once, though groups and logs were asked for."""
    code, document = audit("-c", checkpoint.folder, "-b", "127.0.0.1:1", "-g", "g")
    assert code == 3
    (away,) = (one for one in document["findings"] if one["kind"] == "not read")
    assert "Connection refused" in away["cause"]


def test_people_see_a_table_and_a_verdict(
    checkpoint: CheckpointFiles, store: StoreFile, capsys: pytest.CaptureFixture[str]
) -> None:
    """Findings with cause and fix, the verdict last; nothing is cut where it is no terminal."""
    checkpoint.plan(2, {TP: 45})
    checkpoint.commit(2)
    words = ["audit", "-c", str(checkpoint.folder), "--ledger", f"sqlite:{store.path}"]
    assert cli.app(words, standalone_mode=False) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "verdict: 25 records lost or not applied, to act on: 1"
    assert any(line.startswith("  cause: the store was restored") for line in lines)
    assert any(line.startswith("  fix: stop the query; start it with a new") for line in lines)
    assert any("flights-0" in line and "45" in line and "20" in line for line in lines)


def test_people_are_told_which_command_has_no_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    """`follow --once` commits as soon as it is typed; what changes nothing yet is not named so."""
    at_once = "  that commits at once: `eo-listener follow --once` has no dry run"
    positions = {"checkpoint": judge.checkpoint(60), "groups": (judge.group(90),)}
    audit_screen.show(Positions(**positions), judge.judged(**positions))  # type: ignore[arg-type]  # its own fields
    lines = capsys.readouterr().out.splitlines()
    fix = lines.index("  fix: eo-listener follow /c -b k:9092 -g g --once --on-rewind allow")
    assert lines[fix + 1] == at_once
    others = {"checkpoint": judge.checkpoint(60), "stores": (judge.store(judge.ledger(40)),)}
    audit_screen.show(Positions(**others), judge.judged(**others))  # type: ignore[arg-type]  # its own fields
    assert at_once not in capsys.readouterr().out.splitlines()


def test_names_are_never_obeyed_by_a_terminal(
    store: StoreFile, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name of a query is whatever somebody has chosen."""
    store.execute("UPDATE eo_ledger SET query = 'a' || char(27) || '[2Jb[/red]'")
    cli.app(["audit", "--ledger", f"sqlite:{store.path}"], standalone_mode=False)
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "query a\\x1b[2Jb[/red]" in text


def test_rows_need_the_log(store: StoreFile, audit: Audit) -> None:
    """Without Kafka nothing that a table lacks could be explained."""
    code, document = audit("--ledger", f"sqlite:{store.path}", "--rows")
    assert (code, document["complete"]) == (3, False)
