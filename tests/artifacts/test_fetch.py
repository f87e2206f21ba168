"""Fetching with real Ivy from a repository in a folder: complete, checked, once."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from eo_listener.errors import JavaError
from tests.artifacts import Artifact, DownloadError, fetch
from tests.artifacts.ivy import SETTINGS_VARIABLE

ONE = Artifact.of("org.example:one:1.0")
POM = """\
<project><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>{name}</artifactId><version>1.0</version>
<packaging>{packaging}</packaging>
<dependencies>{needs}</dependencies></project>
"""
NEED = """\
<dependency><groupId>org.example</groupId><artifactId>{name}</artifactId><version>1.0</version>
</dependency>
"""


@dataclass(frozen=True)
class Repository:
    """Modules of org.example, each of version 1.0."""

    root: Path

    def add(self, name: str, *needs: str, ending: str = ".jar", packaging: str = "jar") -> Path:
        folder = self.root / "org" / "example" / name / "1.0"
        folder.mkdir(parents=True)
        needed = "".join(NEED.format(name=need) for need in needs)
        pom = POM.format(name=name, packaging=packaging, needs=needed)
        (folder / f"{name}-1.0.pom").write_text(pom)
        file = folder / f"{name}-1.0{ending}"
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("name", name)
        digest = hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()
        file.with_name(f"{file.name}.sha1").write_text(digest)
        return file


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """An empty repository that Ivy is told to use."""
    root, settings = tmp_path / "repository", tmp_path / "settings.xml"
    root.mkdir()
    settings.write_text(
        '<ivysettings><settings defaultResolver="here"/><resolvers>'
        f'<ibiblio name="here" m2compatible="true" root="{root.as_uri()}/"/>'
        "</resolvers></ivysettings>"
    )
    monkeypatch.setenv(SETTINGS_VARIABLE, str(settings))
    return Repository(root)


def test_a_folder_is_filled_once_and_then_needs_no_java(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call returns the same files though neither Java nor the repository is there."""
    repository.add("one", "two", "unwanted")
    repository.add("two")
    repository.add("unwanted")
    repository.add("tool", ending="-bin.zip", packaging="pom")
    tool = replace(ONE, name="tool", classifier="bin", extension="zip", transitive=False)
    wanted = [replace(ONE, without=("org.example:unwanted",)), tool]
    folder = tmp_path / "kept" / "1.0"
    files = fetch(wanted, folder)
    assert [file.name for file in files] == ["one-1.0.jar", "tool-1.0-bin.zip", "two-1.0.jar"]
    left = sorted(path.name for path in folder.parent.iterdir())
    assert left == [".1.0.lock", "1.0", "1.0.log"], "nothing half done or doubled may stay"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    assert fetch(wanted, folder) == files
    checked = subprocess.run(["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=folder, check=False)
    assert checked.returncode == 0


@pytest.mark.parametrize("damage", ["changed", "missing", "extra", "manifest"])
def test_damage_is_found_and_repaired(
    damage: str, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is not as it was downloaded is never used as it is."""
    repository.add("one")
    folder, lines = tmp_path / "kept", list[str]()
    (jar,) = fetch([ONE], folder)
    whole = jar.read_bytes()
    if damage == "changed":
        jar.write_bytes(whole[:-1] + b"x")  # of the same size
    elif damage == "missing":
        jar.unlink()
    elif damage == "extra":
        (folder / "other.jar").write_bytes(whole)
    else:
        (folder / "SHA256SUMS").write_text("nonsense\n")
    with monkeypatch.context() as without:
        without.setenv("JAVA_HOME", str(tmp_path / "no-java"))
        with pytest.raises(JavaError):
            fetch([ONE], folder)
    assert fetch([ONE], folder, on_progress=lines.append) == (jar,)
    assert jar.read_bytes() == whole
    assert str(folder) in lines[0]


@pytest.mark.parametrize(
    ("known", "wrong"),
    [({"one-1.0.jar": "0" * 64}, "wrong SHA-256: one-1.0.jar"), ({}, "not expected: two-1.0.jar")],
)
def test_what_is_not_known_by_its_hash_is_refused(
    known: dict[str, str], wrong: str, repository: Repository, tmp_path: Path
) -> None:
    """Other bytes, or a dependency that the list does not name: an error, and no folder."""
    jar = repository.add("one", "two")
    repository.add("two")
    two = hashlib.sha256((tmp_path / "repository/org/example/two/1.0/two-1.0.jar").read_bytes())
    checksums = {"one-1.0.jar": hashlib.sha256(jar.read_bytes()).hexdigest()}
    checksums |= {**known, "two-1.0.jar": two.hexdigest()} if known else {}
    with pytest.raises(DownloadError) as caught:
        fetch([ONE], tmp_path / "kept", checksums=checksums)
    assert wrong in str(caught.value.cause)
    assert not (tmp_path / "kept").exists()


def test_a_version_that_does_not_exist_is_named(repository: Repository, tmp_path: Path) -> None:
    """The error names the artifact, and the file with the whole log."""
    with pytest.raises(DownloadError) as caught:
        fetch([ONE], tmp_path / "kept")
    assert "org.example:one:1.0" in caught.value.problem
    assert "org.example#one;1.0" in str(caught.value.cause)
    log = tmp_path / "kept.log"
    assert str(log) in str(caught.value.fix)
    assert "UNRESOLVED" in log.read_text()
