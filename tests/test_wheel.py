"""What ships is what is tested: one wheel, with one jar, that runs where nothing else is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import eo_listener
from tests.processes import finished

ROOT = Path(__file__).parents[1]
JAR = f"eo_listener/jars/eo-listener-shim-{eo_listener.__version__}.jar"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that a build needs, in a folder of their own."""
    folder = tmp_path / "checkout"
    shutil.copytree(
        ROOT / "eo_listener", folder / "eo_listener", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def build(checkout: Path) -> subprocess.CompletedProcess[str]:
    return finished([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=checkout)


def test_the_wheel_holds_the_package_and_one_jar(checkout: Path) -> None:
    """Exactly one jar, though git ignores it, the data files, and nothing from outside."""
    answer = build(checkout)
    assert answer.returncode == 0, answer.stderr
    (wheel,) = (checkout / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith(".jar")] == [JAR]
    data = ("py.typed", "spark/session/ivysettings.xml", "cli/serve/page.css", "cli/serve/page.js")
    assert {f"eo_listener/{name}" for name in data} <= set(names)
    ours = {name.split("/")[1] for name in names}
    assert not ours & {"artifacts", "broker", "demo", "devtools", "tests"}
    tops = {name.split("/")[0] for name in names}
    assert tops == {"eo_listener", f"eo_listener-{eo_listener.__version__}.dist-info"}


@pytest.mark.parametrize("jars", [0, 2])
def test_a_wheel_without_exactly_one_jar_is_refused(checkout: Path, jars: int) -> None:
    """The build stops with one clear line, and leaves no wheel."""
    if jars == 0:
        (checkout / JAR).unlink()
    else:
        shutil.copy(checkout / JAR, checkout / "eo_listener" / "jars" / "older.jar")
    answer = build(checkout)
    assert answer.returncode != 0
    assert "exactly one shim jar" in answer.stderr
    assert not list(checkout.glob("dist/*.whl"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_runs_in_a_clean_environment(checkout: Path, tmp_path: Path) -> None:
    """Installed alone, without Java and pyspark: the jar is named, the rest is explained."""
    assert build(checkout).returncode == 0
    (wheel,) = (checkout / "dist").glob("*.whl")
    home = tmp_path / "env"
    venv.create(home, with_pip=True)
    install = [home / "bin" / "python", "-m", "pip", "install", "--quiet", wheel]
    finished(install, check=True, timeout=600)
    certificates = {k: v for k, v in os.environ.items() if k.startswith(("SSL_", "PIP_"))}
    environment = {"PATH": str(home / "bin"), "HOME": str(tmp_path), **certificates}

    def say(*arguments: str) -> subprocess.CompletedProcess[str]:
        return finished([home / "bin" / "eo-listener", *arguments], env=environment)

    named = say("jar")
    assert named.returncode == 0, named.stderr
    assert named.stdout == f"{named.stdout.strip()}\n"
    assert Path(named.stdout.strip()).name == Path(JAR).name
    assert zipfile.is_zipfile(named.stdout.strip())
    assert named.stderr == ""
    for arguments in (["ledger", "show", "delta:/nowhere"], ["txn", "list", "-b", "127.0.0.1:1"]):
        refused = say(*arguments)
        assert refused.returncode in (2, 3)
        assert len(refused.stderr.strip().splitlines()) == 1
        assert "Traceback" not in refused.stderr
        assert "Install eo-listener[" in refused.stderr or "JDK" in refused.stderr
