"""Fetching with real Ivy from a repository in a folder: complete, proved, once."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eo_listener.model.errors import JavaError
from tests.artifacts import Artifact, cache_folder, fetch, ivy, verify
from tests.artifacts.conftest import Repository, use_repository
from tests.artifacts.errors import DownloadError


def wanted(name: str = "one") -> Artifact:
    return Artifact(organisation="org.example", name=name, revision="1.0")


def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))


def test_a_folder_is_filled_once_and_then_needs_no_java(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call returns the same files though neither Java nor the repository is there."""
    repository.add("one", "two", "unwanted")
    repository.add("two")
    repository.add("unwanted")
    repository.add("tool", ending="-bin.zip", packaging="pom")
    everything = [
        Artifact(
            organisation="org.example",
            name="one",
            revision="1.0",
            without=("org.example:unwanted",),
        ),
        Artifact(
            organisation="org.example",
            name="tool",
            revision="1.0",
            classifier="bin",
            extension="zip",
            transitive=False,
        ),
    ]
    folder, news = tmp_path / "kept" / "1.0", list[str]()
    files = fetch(everything, folder, on_progress=news.append)
    assert [file.name for file in files] == ["one-1.0.jar", "tool-1.0-bin.zip", "two-1.0.jar"]
    assert any(line.startswith("resolved") for line in news)
    left = sorted(path.name for path in folder.parent.iterdir())
    assert left == [".1.0.lock", "1.0", "1.0.log"], "nothing half done or doubled may stay"

    no_java(monkeypatch, tmp_path)
    assert fetch(everything, folder) == files
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    assert checked.returncode == 0


@pytest.mark.parametrize("damage", ["changed", "missing", "extra", "manifest"])
def test_damage_is_found_said_and_repaired(
    damage: str, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is not as it was downloaded is never used as it is."""
    repository.add("one")
    folder, news = tmp_path / "kept", list[str]()
    (jar,) = fetch([wanted()], folder)
    whole = jar.read_bytes()
    if damage == "changed":
        jar.write_bytes(whole[:-1] + b"x")  # of the same size
    elif damage == "missing":
        jar.unlink()
    elif damage == "extra":
        (folder / "other.jar").write_bytes(whole)
    else:
        (folder / "SHA256SUMS").write_text("nonsense\n")
    with pytest.raises(DownloadError, match="is not complete"):
        verify(folder)
    with monkeypatch.context() as without:
        no_java(without, tmp_path)
        with pytest.raises(JavaError):
            fetch([wanted()], folder)
    assert fetch([wanted()], folder, on_progress=news.append) == (jar,)
    assert jar.read_bytes() == whole
    assert "fetching it again" in news[0]


def test_a_file_with_another_hash_than_the_known_one_is_refused(
    repository: Repository, tmp_path: Path
) -> None:
    """A repository that serves other bytes than those we know gives an error and no folder."""
    repository.add("one")
    folder = tmp_path / "kept"
    with pytest.raises(DownloadError, match=r"wrong SHA-256: one-1\.0\.jar"):
        fetch([wanted()], folder, checksums={"one-1.0.jar": "0" * 64})
    assert not folder.exists()


def test_a_file_beside_the_known_ones_is_refused(repository: Repository, tmp_path: Path) -> None:
    """A dependency that the known list does not name does not get onto a class path."""
    repository.add("one", "two")
    repository.add("two")
    (one, _) = fetch([wanted()], tmp_path / "free")
    known = {one.name: hashlib.sha256(one.read_bytes()).hexdigest()}
    with pytest.raises(DownloadError, match=r"not expected: two-1\.0\.jar"):
        fetch([wanted()], tmp_path / "known", checksums=known)


def test_ivy_refuses_what_the_repository_itself_calls_damaged(
    repository: Repository, tmp_path: Path
) -> None:
    """A jar that does not fit the SHA-1 beside it in the repository is not taken."""
    jar = repository.add("one")
    jar.with_name(f"{jar.name}.sha1").write_text("0" * 40)
    with pytest.raises(DownloadError, match=r"org\.example:one:1\.0"):
        fetch([wanted()], tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_a_version_that_does_not_exist_is_named(repository: Repository, tmp_path: Path) -> None:
    """The error names the artifact and the file that keeps the whole log; nothing else stays."""
    repository.add("there")
    with pytest.raises(DownloadError) as caught:
        fetch([wanted("there"), wanted()], tmp_path / "cache" / "kept")
    assert "org.example:one:1.0" in caught.value.problem
    assert "no such version" in str(caught.value.cause)
    log = tmp_path / "cache" / "kept.log"
    assert str(log) in str(caught.value)
    assert "UNRESOLVED" in log.read_text()
    assert sorted(path.name for path in log.parent.iterdir()) == [".kept.lock", log.name]


def test_a_repository_that_does_not_answer_is_no_missing_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a network the error speaks of network and proxy."""
    use_repository(monkeypatch, tmp_path / "settings.xml", "http://127.0.0.1:9/")
    with pytest.raises(DownloadError, match="did not answer") as caught:
        fetch([wanted()], tmp_path / "kept")
    assert "proxy" in str(caught.value.fix)
    assert (tmp_path / ".kept.ivy").exists(), "the next run continues with what this one got"
    assert not (tmp_path / ".kept.new").exists()


def test_what_an_earlier_download_left_damaged_is_fetched_afresh(
    repository: Repository, tmp_path: Path
) -> None:
    """A run that was cut short leaves Ivy's cache; half a file in it never reaches the folder."""
    whole = repository.add("one").read_bytes()
    (first,) = fetch([wanted()], tmp_path / "other")
    known = {first.name: hashlib.sha256(whole).hexdigest()}
    into, cache, news = tmp_path / ".kept.new", tmp_path / ".kept.ivy", list[str]()
    into.mkdir()
    ivy.run([wanted()], into, cache=cache, log=tmp_path / "log", say=news.append)
    for half in (into / first.name, *cache.rglob("one-1.0.jar")):
        half.write_bytes(whole[:10])
    (file,) = fetch([wanted()], tmp_path / "kept", checksums=known, on_progress=news.append)
    assert file.read_bytes() == whole
    assert any("starting afresh" in line for line in news)


def test_two_processes_that_fetch_at_once_both_get_whole_files(
    repository: Repository, tmp_path: Path
) -> None:
    """The second waits for the first, and finds the folder complete."""
    repository.add("one")
    program = (
        "import sys; from pathlib import Path; from tests.artifacts import *\n"
        "one = Artifact(organisation='org.example', name='one', revision='1.0')\n"
        "print(fetch([one], Path(sys.argv[1]), on_progress=print))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "kept")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert all("one-1.0.jar" in text for text in said)
    assert sum("resolved 1" in text for text in said) == 1


WAITING = """
import sys; from pathlib import Path; from tests.artifacts import *
one = Artifact(organisation="org.example", name="one", revision="1.0")
fetch([one], Path(sys.argv[1]), on_progress=lambda line: print(line, flush=True))
"""


def test_waiting_for_another_process_is_reported_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who holds the lock for too long is named by a command; the lock file stays as it was."""
    lock, news = tmp_path / ".kept.lock", list[str]()
    monkeypatch.setattr(ivy, "LONGEST_RUN", 0.3)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        inode = os.fstat(held.fileno()).st_ino
        with pytest.raises(DownloadError, match=r"has held \S+\.kept\.lock for 0 s") as caught:
            fetch([wanted()], tmp_path / "kept", on_progress=news.append)
        assert lock.stat().st_ino == inode
    assert f"fuser {lock}" in str(caught.value.fix)
    assert news == ["another process is fetching the same files: waiting for it"]


def test_ctrl_c_ends_the_waiting(tmp_path: Path) -> None:
    """An interrupt while another process downloads is heard at once, and leaves it the lock."""
    lock = tmp_path / ".kept.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        inode = os.fstat(held.fileno()).st_ino
        with subprocess.Popen(
            [sys.executable, "-c", WAITING, str(tmp_path / "kept")],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert "waiting for it" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        assert "KeyboardInterrupt" in said
        assert process.returncode == -signal.SIGINT
        assert lock.stat().st_ino == inode


def test_without_pyspark_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says which package brings the downloader, and how to install it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with pytest.raises(DownloadError, match=r"pip install 'eo-listener\[spark\]'"):
        fetch([wanted()], tmp_path / "kept")


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A file where the cache should be gives one error that names the variable to set."""
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadError, match="EO_LISTENER_CACHE"):
        fetch([wanted()], tmp_path / "file" / "kept")


def test_the_cache_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EO_LISTENER_CACHE names the folder for everything that is downloaded."""
    monkeypatch.setenv("EO_LISTENER_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
