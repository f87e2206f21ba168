"""The commit metadata says who committed, within 120 bytes, and reads itself back."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eo_listener.model.commit_metadata import MAX_BYTES, CommitMetadata

IDS = st.uuids().map(str)


def metadata(name: str | None = "flights", batch_id: int = 41) -> CommitMetadata:
    return CommitMetadata.for_batch(
        name=name, query_id=str(uuid.UUID(int=1 << 100)), run_id=str(uuid.UUID(int=2 << 100)),
        batch_id=batch_id,
    )  # fmt: skip


def test_the_format_as_design_md_writes_it_down() -> None:
    """Compact JSON with the five fields of format 1, in this order."""
    assert metadata().text() == '{"v":1,"i":"00000010","r":"00000020","b":41,"q":"flights"}'


def test_the_command_that_committed_is_named() -> None:
    """Beside the query and batch its offsets are from, or alone; releases before ignore it."""
    seeded = replace(metadata(), command="group seed")
    assert seeded.text() == (
        '{"v":1,"i":"00000010","r":"00000020","b":41,"c":"group seed","q":"flights"}'
    )
    assert CommitMetadata.parse(seeded.text()) == seeded
    assert str(seeded).endswith("batch 41, by eo-listener group seed")
    assert seeded.author == "flights"
    alone = replace(seeded, name="", query_id="", batch_id=-1)
    assert str(alone) == "eo-listener group seed, run 00000020"
    assert alone.author == "eo-listener group seed"
    assert (seeded.batch, alone.batch) == (41, None)
    longest = replace(alone.rewinding(2**63 - 1), withheld=True, by_sink=True, name="x" * 99)
    assert len(longest.text().encode()) == MAX_BYTES


@given(st.text(max_size=300), IDS, IDS, st.integers(0, 2**63 - 1))
def test_it_never_exceeds_its_bytes_and_reads_itself_back(
    name: str, query: str, run: str, batch: int
) -> None:
    """For any name: at most 120 bytes of UTF-8, and everything but a long name survives."""
    written = CommitMetadata.for_batch(name=name, query_id=query, run_id=run, batch_id=batch)
    text = written.text()
    assert len(text.encode()) <= MAX_BYTES
    read = CommitMetadata.parse(text)
    assert read is not None
    assert (read.query_id, read.run_id, read.batch_id) == (query[:8], run[:8], batch)
    cut = len(text.encode()) >= MAX_BYTES - 6 and read.name.endswith("~")
    assert read.name == name or (cut and name.startswith(read.name[:-1]))


def test_a_lone_surrogate_in_the_name_does_not_stop_a_commit() -> None:
    """A name that is no valid text is made one instead of raising."""
    assert json.loads(metadata("a\ud800b").text())["q"] == "a?b"


@pytest.mark.parametrize(
    "text", [None, "", "x", "{}", "1", "null", '{"v":1}', '{"v":"1","i":"","r":"","b":0,"q":""}']
)
def test_the_text_of_another_program_is_nobodys(text: str | None) -> None:
    """Metadata that we did not write gives None, not an error."""
    assert CommitMetadata.parse(text) is None


def test_a_trailing_nul_is_dropped() -> None:
    """confluent-kafka stores a NUL after the text; other readers show it."""
    assert CommitMetadata.parse(metadata().text() + "\0") == metadata()


def test_what_a_commit_may_carry_besides() -> None:
    """Where it was rewound from, and the guard's mark; each is read back."""
    rewound = metadata().rewinding(150)
    assert '"w":150' in rewound.text()
    assert CommitMetadata.parse(rewound.text()) == rewound
    withheld = replace(metadata(), withheld=True)
    assert '"g":1' in withheld.text()
    assert CommitMetadata.parse(withheld.text()) == withheld
    assert CommitMetadata.parse(metadata().text()) == metadata()
    odd = metadata().text().replace('"b"', '"w":"x","g":2,"b"')
    assert CommitMetadata.parse(odd) == metadata()


def test_a_writer_is_a_run_of_a_query() -> None:
    """Neither another run nor another query is the same writer, nor is a stranger."""
    one = metadata()
    assert one.same_writer(metadata(batch_id=99))
    assert not one.same_writer(replace(one, run_id="x"))
    assert not one.same_writer(replace(one, query_id="x"))
    assert not one.same_writer(None)
