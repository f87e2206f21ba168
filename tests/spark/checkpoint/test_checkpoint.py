"""A checkpoint in every state a crash, a disk or a person can leave it in."""

from __future__ import annotations

import tracemalloc
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from eo_listener.errors import JvmError, SettingsError, StorageError
from eo_listener.offsets import Offsets, TopicPartition
from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from eo_listener.spark.checkpoint.errors import CheckpointError, FileFindingKind
from eo_listener.spark.checkpoint.location import Location, _translate, shown
from eo_listener.spark.checkpoint.log_files import BatchOffsets
from tests.attack import surgery
from tests.spark.checkpoint import writers
from tests.spark.checkpoint.recorded import read, unpack

LOST = [("offsets/1", FileFindingKind.LOST_SOURCE)]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Three batches of Spark 4.0, all of them done."""
    return unpack("4.0.0", "plain", tmp_path / "plain")


def read_of(folder: Path | str) -> tuple[int | None, list[tuple[str, FileFindingKind]]]:
    """The newest batch that is committed, and what was found on the way to it."""
    durable = Checkpoint(str(folder)).committed()
    found = [(one.file, one.kind) for one in durable.findings]
    return durable.offsets.batch if durable.offsets else None, found


def test_states_after_a_crash_are_normal(plain: Path) -> None:
    """Without commits/N, without offsets/N too, beside temporaries: the batch before counts."""
    assert read_of(plain) == (2, [])
    assert surgery.before_commit(plain) == 2
    assert read_of(plain) == (1, [])
    assert Checkpoint(str(plain)).batches().planned[-1] == 2
    assert surgery.before_offsets(plain) == 2
    assert read_of(plain) == (1, [])
    for folder in ("commits", "offsets"):
        surgery.leave_temporary(plain, folder)
        surgery.leave_temporary(plain, folder, whole=True)
        for name in ("3.tmp", "3.compact", "03", "-1"):
            (plain / folder / name).write_text("v1\n{}")
    assert read_of(plain) == (1, [])
    assert Checkpoint(str(plain)).batches().committed == (0, 1)


def test_a_commit_without_offsets_is_passed_over(plain: Path) -> None:
    """commits/N without offsets/N: the newest batch that has both counts; none is a finding."""
    surgery.remove(plain / "offsets" / "2")
    assert read_of(plain) == (1, [])
    for batch in ("0", "1"):
        surgery.remove(plain / "offsets" / batch)
    assert read_of(plain) == (None, [("offsets/2", FileFindingKind.MISSING)])


@pytest.mark.parametrize("folder", ["offsets", "commits"])
def test_a_torn_file_is_named_and_the_batch_before_counts(folder: str, plain: Path) -> None:
    """Empty, cut, not matching its checksum, too large: never a wrong offset."""
    file = plain / folder / "2"
    content = file.read_bytes()
    changed = content.replace(b"0", b"1")
    for held, checksummed, kind in (
        (b"", True, FileFindingKind.EMPTY),
        (content[:-5], True, FileFindingKind.CUT),
        (b"v9\n{}\n-", True, FileFindingKind.TOO_NEW),
        (bytes(range(256)), True, FileFindingKind.GARBLED),
        (changed, False, FileFindingKind.CHECKSUM),
    ):
        surgery.replace(file, content)
        surgery.replace(file, held, checksummed=checksummed)
        assert read_of(plain) == (1, [(f"{folder}/2", kind)])
    surgery.remove(file)
    file.mkdir()
    assert read_of(plain)[0] == 1


def test_a_lost_source_is_noticed(tmp_path: Path) -> None:
    """A file cut between two lines is whole by itself; the other batches know better."""
    for name in ("join", "twice"):
        folder = unpack("4.0.0", name, tmp_path / name)
        file = folder / "offsets" / "1"
        surgery.replace(file, file.read_bytes().rsplit(b"\n", 1)[0])
        assert read_of(folder) == (0, LOST)
    # The folders of the sources say it too, where no other batch is left.
    folder = tmp_path / "join"
    for kind in ("offsets", "commits"):
        surgery.remove(folder / kind / "0")
    assert read_of(folder) == (None, LOST)


def test_a_huge_file_is_not_read_whole(plain: Path) -> None:
    """A file of a gigabyte costs no more than the limit."""
    surgery.remove(plain / "offsets" / "2")
    with (plain / "offsets" / "2").open("wb") as file:
        file.write(b"v1\n\n")
        file.truncate(2**30)
    tracemalloc.start()
    _, found = read_of(plain)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [("offsets/2", FileFindingKind.TOO_LARGE)]
    assert peak < 64 * 2**20


def test_a_folder_that_is_no_checkpoint(tmp_path: Path, plain: Path) -> None:
    """Nothing there, nothing in it, another thing: three different answers."""
    assert not Checkpoint(str(tmp_path / "nosuch")).exists()
    empty = tmp_path / "empty"
    empty.mkdir()
    assert not Checkpoint(str(empty)).exists()
    (empty / ".metadata.0f8c2a11.tmp").touch()
    assert not Checkpoint(str(empty)).exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "data.parquet").touch()
    with pytest.raises(CheckpointError, match="this is not a checkpoint"):
        Checkpoint(str(tmp_path / "other")).exists()
    assert not Checkpoint(str(plain / "offsets" / "0")).exists()


def test_a_thousand_torn_batches_are_not_all_read(plain: Path) -> None:
    """Each read stays short, however many damaged files there are."""
    for batch in range(3, 1000):
        for folder in ("offsets", "commits"):
            (plain / folder / str(batch)).touch()
    newest, found = read_of(plain)
    assert newest is None
    assert len(found) < 100


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", FileFindingKind.EMPTY),
        (b'{"id":"95fa63', FileFindingKind.CUT),
        (b'{"id":"x"}', FileFindingKind.GARBLED),
        (b'{"id":5}', FileFindingKind.GARBLED),
        (b"\xff\xfe", FileFindingKind.GARBLED),
        (b" " * 100_000, FileFindingKind.TOO_LARGE),
    ],
)
def test_a_query_without_an_id(content: bytes, kind: FileFindingKind, plain: Path) -> None:
    """The file `metadata` is read as strictly as the others."""
    surgery.replace(plain / "metadata", content)
    with pytest.raises(CheckpointError) as caught:
        Checkpoint(str(plain)).query_id()
    assert caught.value.finding.kind is kind


@pytest.fixture
def in_memory() -> Iterator[str]:
    """The checkpoint of a join in fsspec's memory, and its URL."""
    files = fsspec.filesystem("memory")
    folder = f"/{uuid.uuid4()}/checkpoint"
    for path, content in read("4.2.0")["join"].items():
        files.pipe_file(f"{folder}/{path}", content)
    yield f"memory:/{folder}"
    files.rm(folder, recursive=True)


def test_a_remote_checkpoint(in_memory: str) -> None:
    """Through another driver than the local one all answers are the same, and always new."""
    checkpoint = Checkpoint(in_memory)
    assert checkpoint.exists()
    assert len(checkpoint.query_id()) == 36
    assert read_of(in_memory) == (1, [])
    assert checkpoint.initial(1) is not None
    assert checkpoint.initial(7) is None
    files = fsspec.filesystem("memory")
    path = in_memory.removeprefix("memory:/")
    files.rm(f"{path}/commits/1")
    assert read_of(in_memory) == (0, [])
    files.pipe_file(f"{path}/commits/1", b"")
    assert read_of(in_memory) == (0, [("commits/1", FileFindingKind.EMPTY)])
    assert not Checkpoint(in_memory + "-nosuch").exists()


class Remembering(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A storage whose listings are cached until they are dropped, as those of s3fs are."""

    protocol = ("remembering",)
    listings: dict[str, Any] = {}  # noqa: RUF012  # shared, as the files of the parent are

    @classmethod
    def _strip_protocol(cls, path: str) -> Any:
        return super()._strip_protocol(path.replace("remembering:", "memory:"))

    def ls(self, path: str, **options: Any) -> Any:
        return self.listings.setdefault(path, super().ls(path, **options))

    def invalidate_cache(self, path: str | None = None) -> None:
        self.listings.clear()


def test_a_listing_is_never_an_old_one(in_memory: str) -> None:
    """Where the driver caches listings a new batch is seen all the same."""
    fsspec.register_implementation("remembering", Remembering, clobber=True)
    checkpoint = Checkpoint(in_memory.replace("memory", "remembering"))
    assert checkpoint.batches().committed == (0, 1)
    fsspec.filesystem("memory").rm(in_memory.removeprefix("memory:/") + "/commits/1")
    assert checkpoint.batches().committed == (0,)


@pytest.mark.parametrize(
    ("url", "package"),
    [
        *((f"{scheme}://bucket/c", "s3fs") for scheme in ("s3a", "s3n", "s3")),
        ("abfss://box@account.dfs.core.windows.net/c", "adlfs"),
        ("wasbs://box@account.blob.core.windows.net/c", "adlfs"),
        ("gs://bucket/c", "gcsfs"),
    ],
)
def test_a_driver_that_is_not_installed(url: str, package: str) -> None:
    """A missing fsspec driver is one error that says what to install."""
    with pytest.raises(StorageError) as caught:
        Location(url)
    assert f"pip install {package}" in str(caught.value)
    assert url in str(caught.value)
    assert caught.value.cause is None


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Unable to load libhdfs (hunter2)", "Unable to load libhdfs (***)"),
        ("x" * 300 + "\nand more", "x" * 200),
        ("", None),
        (" \n", None),
    ],
)
def test_a_driver_that_does_not_load(said: str, told: str | None) -> None:
    """Why is told in its own words, in 200 characters, without the values of the options."""

    class Unloadable(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
        protocol = "unloadable"

        def __init__(self, *_: object, **__: object) -> None:
            raise OSError(said)

    fsspec.register_implementation("unloadable", Unloadable, clobber=True)
    with pytest.raises(StorageError) as caught:
        Location("unloadable://node/c", {"secret": "hunter2"})
    assert caught.value.cause == told


@pytest.mark.parametrize("url", ["", "  ", "nosuch://a/b", "a\0b"])
def test_a_location_that_cannot_be(url: str) -> None:
    """A malformed location is refused before anything is read."""
    with pytest.raises(SettingsError):
        Location(url)


def test_secrets_are_not_shown() -> None:
    """A password in a URL, or in the options, is in no text of the location."""
    location = Location("memory://user:hunter2@host/c", {"secret": "hunter2"})
    assert "hunter2" not in f"{location} {location!r}"
    with pytest.raises(StorageError) as caught:
        Location("s3a://key:hunter2@bucket/c", {"secret": "hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sftp://user:p@ss@host/c", "sftp://***@host/c"),
        ("sftp://user:p@ss:word@host:22/c/a@b", "sftp://***@host:22/c/a@b"),
        ("https://host/c?sig=hunter2&x=1", "https://host/c?***"),
        ("https://user:hunter2@host/c?sig=x", "https://***@host/c?***"),
        *((url, url) for url in ("abfss://box@a.dfs.core.windows.net/c", "/data/a:b@c?d")),
        ("no s3://k:p@q@b/x, nor http://h/y?z=1", "no s3://***@b/x, nor http://h/y?***"),
        ("fs.s3a.secret.key=hunter2, and more", "fs.s3a.secret.key=*** and more"),
        ("no access: Token: hunter2", "no access: Token: ***"),
    ],
)
def test_what_is_shown_of_a_url(url: str, told: str) -> None:
    """No password, whatever is in it, and no signature; also where a driver quotes it."""
    assert shown(url) == told


def test_an_error_of_ours_goes_through_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver may ask for something of ours, whose error says more than that it failed."""
    ours = JvmError("no JVM can be started")
    monkeypatch.setattr("fsspec.core.url_to_fs", Mock(side_effect=ours))
    with pytest.raises(JvmError) as failed:
        Location("memory://c")
    assert failed.value is ours


def test_a_driver_that_quotes_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says of a file that cannot be read is told without them."""
    location = Location("memory://c", {"token": "hunter2"})
    error = PermissionError("token hunter2 of sftp://u:p@ss@h/c is refused")
    refuse = Mock(side_effect=error)
    monkeypatch.setattr(location._files, "open", refuse)
    monkeypatch.setattr(location._files, "ls", refuse)
    for ask in (lambda: location.read("x", 10), location.names):
        with pytest.raises(StorageError) as failed:
            ask()
        assert failed.value.cause == "token *** of sftp://***@h/c is refused"


@pytest.mark.parametrize("url", ["file:/a/b", "file:///a/b", "local:///a/b", "/a/b", "/a/../a/b"])
def test_a_local_folder_is_one_however_it_is_written(url: str) -> None:
    """Hadoop writes `file:/x` as well as `file:///x`."""
    location = Location(url)
    assert location.local
    assert location.key == "file:/a/b"
    assert Location(f"{url}/").key == location.key != Location(f"{url}/c").key
    assert Location("memory:///a/b").key == Location("memory://a/b").key


def test_sources_with_names_may_become_fewer(tmp_path: Path) -> None:
    """One name is enough: of such a query a source may be gone, and its file is whole."""
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    for batch, (version, names) in enumerate([(1, ("0", "1", "2")), (2, ("0", "flights"))]):
        sources = tuple(
            writers.source_offsets(name, Offsets({TopicPartition("t", 0): 5})) for name in names
        )
        found = BatchOffsets(batch=batch, version=version, metadata="{}", sources=sources)
        (tmp_path / "offsets" / str(batch)).write_text(writers.batch_offsets(found))
        (tmp_path / "commits" / str(batch)).write_text("v1\n{}")
    assert read_of(tmp_path) == (1, [])


def test_azures_older_address_is_read_as_its_newer_one() -> None:
    """Only the host is another one; what the path is called is left alone."""
    scheme, url = _translate("wasbs://box@account.blob.core.windows.net/a.blob.b")
    assert (scheme, url) == ("abfs", "abfs://box@account.dfs.core.windows.net/a.blob.b")
