"""Each file's text is read as it was written; a damaged one is named, or changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eo_listener.offsets import Offsets, TopicPartition
from eo_listener.spark.checkpoint import log_files
from eo_listener.spark.checkpoint.checkpoint import Checkpoint, matches_checksum
from eo_listener.spark.checkpoint.errors import FileFindingKind, Unreadable
from eo_listener.spark.checkpoint.log_files import BatchOffsets, SourceOffsets, check_commit
from tests.attack import surgery
from tests.spark.checkpoint import writers
from tests.spark.checkpoint.recorded import unpack

TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,12}", fullmatch=True).filter(
    lambda name: name not in {".", ".."}
)
PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1), min_size=1).map(Offsets)
OTHERS = st.sampled_from(["5", '{"logOffset":1}', '{"0":{"value":3,"runTimeMs":9}}', "null"])
LINES = st.one_of(
    OFFSETS.map(lambda held: writers.source_offsets("", held)),
    OTHERS.map(lambda text: SourceOffsets(id="", text=text, offsets=None)),
    st.just(SourceOffsets(id="", text=None, offsets=None)),
)
METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1795272143933,"conf":{"a.b":"2"}}'


@st.composite
def written(draw: st.DrawFn) -> BatchOffsets:
    lines = draw(st.lists(LINES, min_size=1, max_size=4))
    version = draw(st.sampled_from([1, 2]))
    ids = st.text("abcXYZ_019", min_size=1, max_size=6)
    names = [str(number) for number in range(len(lines))]
    if version == 2:
        names = draw(st.lists(ids, min_size=len(lines), max_size=len(lines), unique=True))
    return BatchOffsets(
        batch=7,
        version=version,
        metadata=draw(st.sampled_from(["", METADATA])),
        sources=tuple(
            SourceOffsets(id=name, text=line.text, offsets=line.offsets)
            for name, line in zip(names, lines, strict=True)
        ),
    )


@pytest.mark.parametrize(
    ("sums", "fits"),
    [
        (b"sha" + bytes(20), True),  # of a format that is not Hadoop's
        (b"crd\0" + bytes(8), True),
        (b"", False),
        (b"cr", False),
        (b"crc\0", False),
        (b"crc\0\0\0\2", False),
        (b"crc\0" + bytes(8), False),  # chunks of no bytes
        (b"crc\0\0\0\2\0", False),  # no sum of what is there
    ],
)
def test_a_foreign_checksum_says_nothing_and_a_cut_one_does_not_fit(
    sums: bytes, fits: bool
) -> None:
    """Another program may keep files of that name; Hadoop's own is damaged where it is short."""
    assert matches_checksum(b"held", sums) is fits


@pytest.mark.parametrize(
    ("held", "kind"),
    [
        (b'\0v2\n{"t":{"0":5}}', FileFindingKind.TOO_NEW),
        (b'\0one\n{"t":{"0":5}}', FileFindingKind.GARBLED),
        (b"\0v1", FileFindingKind.CUT),
        (b"\0v1\n", FileFindingKind.CUT),
        (b'\0v1\n{"t":{"0":5}', FileFindingKind.CUT),
        (b"\0v1\n5", FileFindingKind.GARBLED),
        (b"\0v1\n\xff", FileFindingKind.GARBLED),
    ],
)
def test_a_file_that_holds_no_initial_offsets(held: bytes, kind: FileFindingKind) -> None:
    """Of another version, cut or damaged: each has its word."""
    with pytest.raises(Unreadable) as caught:
        log_files.parse_initial_offsets(held)
    assert caught.value.kind is kind


@given(written())
def test_offsets_are_read_as_they_were_written(batch: BatchOffsets) -> None:
    """Any sources, either version, with and without metadata; a last line feed changes nothing."""
    assert BatchOffsets.parse(7, writers.batch_offsets(batch)) == batch
    assert BatchOffsets.parse(7, writers.batch_offsets(batch) + "\n") == batch


@given(OFFSETS)
def test_initial_offsets_are_read_as_they_were_written(offsets: Offsets) -> None:
    """With the zero byte and the version line before them."""
    assert log_files.parse_initial_offsets(writers.initial_offsets(offsets)) == offsets


@given(written(), st.data())
def test_a_cut_text_never_gives_another_offset(batch: BatchOffsets, data: st.DataObject) -> None:
    """Cut anywhere, it is refused, or holds the first of its lines unchanged."""
    text = writers.batch_offsets(batch)
    try:
        found = BatchOffsets.parse(7, text[: data.draw(st.integers(0, len(text) - 1))])
    except Unreadable:
        return
    # A number that stands alone, such as the line of a rate source, can be cut and stay one.
    for mine, whole in zip(found.sources, batch.sources, strict=False):
        assert mine.offsets == whole.offsets


@given(st.binary(max_size=300))
def test_any_bytes_end_in_a_word_for_them(held: bytes) -> None:
    """Whatever bytes a parser gets, it returns a value or a finding, and raises nothing else."""
    text = held.decode("latin-1")
    for parse in (
        lambda: BatchOffsets.parse(1, text),
        lambda: BatchOffsets.parse(1, "v1\n\n" + text),
        lambda: check_commit("v1\n" + text),
        lambda: log_files.parse_initial_offsets(held),
        lambda: log_files.parse_initial_offsets(b"\0v1\n" + held),
    ):
        try:
            parse()
        except Unreadable as why:
            assert isinstance(why.kind, FileFindingKind)  # noqa: PT017  # either outcome is right


@given(st.binary(max_size=2000), st.data())
def test_a_changed_byte_does_not_match_the_checksum(held: bytes, data: st.DataObject) -> None:
    """The checksum fits what it was made of, and nothing that differs in one byte."""
    assert matches_checksum(held, writers.checksum(held))
    if held:
        place = data.draw(st.integers(0, len(held) - 1))
        bit = 1 << data.draw(st.integers(0, 7))
        other = held[:place] + bytes([held[place] ^ bit]) + held[place + 1 :]
        assert not matches_checksum(other, writers.checksum(held))


@pytest.mark.parametrize("name", ["plain", "join"])
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_checkpoint_gives_the_same_offsets_or_a_finding(
    name: str, tmp_path: Path, data: st.DataObject
) -> None:
    """Of what Spark wrote, any file of the last batch cut or changed: never other offsets."""
    whole = unpack("4.0.0", name, tmp_path)
    right = Checkpoint(str(whole)).committed().offsets
    assert right is not None
    folder = data.draw(st.sampled_from(["offsets", "commits"]))
    file = whole / folder / str(right.batch)
    content = file.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        # Cut with a checksum that fits: what a file system without checksums would show.
        surgery.tear(file, place, checksummed=data.draw(st.booleans()))
    else:
        byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[place]))
        damaged = content[:place] + bytes([byte]) + content[place + 1 :]
        surgery.replace(file, damaged, checksummed=False)
    found = Checkpoint(str(whole)).committed()
    if found.offsets != right:
        assert found.findings
        assert found.findings[0].file == f"{folder}/{right.batch}"
        assert found.offsets is None or found.offsets.batch < right.batch


NO_OFFSETS = {
    FileFindingKind.CUT: [
        *("", "v", "v1", "v1\n", "v1\n\n", "v1\n" + METADATA[:30], "v1\n" + METADATA),
        *('v1\n\n{"t":{"0":5', 'v1\n\n{"t":{"0":5}}\n\n', "v2\n\n0", "v2\n\n0:-\n-", "v2\n\n:-"),
    ],
    FileFindingKind.TOO_NEW: ["v3\n\n-"],
    FileFindingKind.OUT_OF_RANGE: [
        'v1\n\n{"t":{"0":' + "9" * 100_000 + "}}",
        'v1\n\n{"t":{"0":9223372036854775808}}',
        *('v1\n\n{"t":{"0":-1}}', 'v1\n\n{"t":{"0":-2,"1":4}}'),
    ],
    FileFindingKind.GARBLED: [
        *("v0\n\n-", "one\n\n-", "v1\n[]\n-", 'v1\n{"batchWatermarkMs":"x"}\n-'),
        *('v1\n{"x":NaN}\n-', 'v1\n{"x":-Infinity}\n-', "v1\n\n" + "[" * 100_000),
        *('v2\n\n{"t":{"0":5}}', 'v2\n\n0:{"t":{"0":5}}\n0:-', 'v1\n\n{"t":{"0":5},"u":7}'),
        *(f'v1\n\n{{"t":{{"0":{no}}}}}' for no in ('"5"', "5.0", "true", "null", "NaN", '5,"0":6')),
        *(f'v1\n\n{{"t":{{"{no}":5}}}}' for no in ("00", "2147483648", "-1", 'x":5,"0')),
        *(f'v1\n\n{{"{no}":{{"0":5}}}}' for no in ("t t", "", "..", "\\ud800", "t" * 250)),
        'v1\n\n{"t":{"0":5},"t":{"0":6}}',
    ],
}


@pytest.mark.parametrize(
    ("kind", "text"),
    [(kind, text) for kind, texts in NO_OFFSETS.items() for text in texts],
    ids=lambda value: repr(value)[:40],
)
def test_a_text_that_is_no_offsets(text: str, kind: FileFindingKind) -> None:
    """Cut, damaged, hostile and newer texts each have their word."""
    with pytest.raises(Unreadable) as caught:
        BatchOffsets.parse(1, text)
    assert caught.value.kind is kind


@pytest.mark.parametrize("text", ['{"0":{"value":3,"runTimeMs":9}}', "5", '"x"', '{"a":1}', "[]"])
def test_offsets_of_other_sources(text: str) -> None:
    """What does not hold numbered things under names is another kind of source's."""
    assert log_files.parse_offsets(text) is None
