"""A Maven repository in a folder, so that real Ivy runs need no network."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.artifacts.ivy import SETTINGS_VARIABLE

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """Modules of org.example, each of version 1.0."""

    root: Path

    def add(self, name: str, *needs: str, ending: str = ".jar", packaging: str = "jar") -> Path:
        """Publish a module; return its file."""
        folder = self.root / "org" / "example" / name / "1.0"
        folder.mkdir(parents=True)
        pom = POM.format(
            name=name, packaging=packaging, needs="".join(NEED.format(name=one) for one in needs)
        )
        (folder / f"{name}-1.0.pom").write_text(pom)
        file = folder / f"{name}-1.0{ending}"
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("name", name)
        digest = hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()
        file.with_name(f"{file.name}.sha1").write_text(digest)
        return file


def use_repository(monkeypatch: pytest.MonkeyPatch, settings: Path, root: str) -> None:
    """Let Ivy ask the repository at `root` and no other."""
    settings.write_text(
        '<ivysettings><settings defaultResolver="here"/><resolvers>'
        f'<ibiblio name="here" m2compatible="true" root="{root}"/></resolvers></ivysettings>'
    )
    monkeypatch.setenv(SETTINGS_VARIABLE, str(settings))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """An empty repository that Ivy is told to use."""
    root = tmp_path / "repository"
    root.mkdir()
    use_repository(monkeypatch, tmp_path / "settings.xml", f"{root.as_uri()}/")
    return Repository(root=root)
