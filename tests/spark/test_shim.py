"""Where the shim jar is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from eo_listener.errors import UnavailableError
from eo_listener.spark import shim


def test_one_jar() -> None:
    """The package brings one jar, with the classes that Python calls and that users name."""
    names = zipfile.ZipFile(shim.jar()).namelist()
    assert "io/github/eolistener/requests/SourceInspector.class" in names
    assert "io/github/eolistener/OffsetCommitListener.class" in names


def test_command_without_java() -> None:
    """`eo-listener jar` prints the path and nothing else, where there is no Java at all."""
    environment = {**os.environ, "PATH": "/nowhere", "JAVA_HOME": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-m", "eo_listener", "jar"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{shim.jar()}\n"


@pytest.mark.parametrize(
    ("jars", "problem", "fix"),
    [
        ([], "no shim jar", "make jar"),
        (["eo-listener-shim-0.0.9.jar", "eo-listener-shim-0.1.0.jar"], "several", "make jar"),
    ],
)
def test_not_one_jar(
    jars: list[str], problem: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No jar, or more than one, is an error that says what to type."""
    (tmp_path / "jars").mkdir()
    for name in jars:
        shutil.copy(shim.jar(), tmp_path / "jars" / name)
    monkeypatch.setattr(shim, "__file__", str(tmp_path / "spark" / "shim.py"))
    with pytest.raises(UnavailableError, match=problem) as caught:
        shim.jar()
    assert fix in str(caught.value)
    assert "\n" not in str(caught.value)
