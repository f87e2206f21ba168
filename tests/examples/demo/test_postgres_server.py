"""The PostgreSQL that the demo and the tests start: wherever the package was installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import psutil
import psycopg
import pytest

from eo_listener.model.errors import UnavailableError
from examples.demo import postgres_server
from examples.demo.postgres_server import PACKAGE, PostgresServer

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package, installed by somebody with umask 077 in a folder that others cannot enter."""
    found = find_spec(PACKAGE)
    assert found is not None
    assert found.origin is not None
    installed = Path(found.origin).parent
    site = tmp_path / "site"
    site.mkdir(mode=0o700)
    package = site / PACKAGE
    left_out = shutil.ignore_patterns("pginstall", "include", "*.a", "__pycache__")
    shutil.copytree(installed, package, ignore=left_out)
    libraries = installed.with_name(f"{PACKAGE}.libs")
    shutil.copytree(libraries, site / libraries.name)
    for path in (site, *site.rglob("*")):
        path.chmod(path.stat().st_mode & 0o700)
    spec = ModuleSpec(PACKAGE, None, origin=str(package / "__init__.py"))
    monkeypatch.setattr(postgres_server, "find_spec", lambda name: spec)
    return site


def test_it_starts_where_others_cannot_enter(closed: Path) -> None:
    """As root and as any user, from a virtual environment below a folder of mode 0700."""
    before = {path: path.stat().st_mode for path in (closed, *closed.parents)}
    server = PostgresServer()
    try:
        server.start()
        with psycopg.connect(server.dsn()) as link:
            assert link.execute("SELECT 1").fetchone() == (1,)
        owner = psutil.Process(server.process.pid).uids().real
        assert owner == server.folder.stat().st_uid
        assert owner != 0
        assert server.folder.stat().st_mode & 0o077 == 0
    finally:
        server.close()
    assert not server.folder.exists()
    assert {path: path.stat().st_mode for path in before} == before


def test_what_initdb_said_stands_in_the_error(closed: Path) -> None:
    """Without the libraries beside the package: the loader's own words, and no folder is left."""
    shutil.rmtree(closed / f"{PACKAGE}.libs")
    server = PostgresServer()
    with pytest.raises(UnavailableError) as refused:
        server.start()
    server.close()
    assert "program initdb" in str(refused.value)
    assert "error while loading shared libraries: libpq" in str(refused.value)
    assert "--dsn" in str(refused.value)
    assert not server.folder.exists()


def test_what_postgres_said_stands_in_the_error() -> None:
    """A setting that it does not know: its own words."""
    server = PostgresServer(conf="no_such_setting = 1\n")
    try:
        with pytest.raises(UnavailableError, match=r"program postgres .*no_such_setting"):
            server.start()
    finally:
        server.close()


@as_root
def test_a_folder_that_nobody_can_enter_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TMPDIR below root's own folders: the data go to /tmp."""
    monkeypatch.setattr(postgres_server, "gettempdir", lambda: str(tmp_path))
    server = PostgresServer()
    server.close()
    assert tmp_path not in server.folder.parents


def test_it_ends_with_the_process_that_started_it() -> None:
    """SIGKILL of that one leaves no server."""
    program = (
        "import sys, signal, os\n"
        "from examples.demo.postgres_server import PostgresServer\n"
        "server = PostgresServer(); server.start()\n"
        "print(server.process.pid, server.folder, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    pid, folder = ended.stdout.split()
    try:
        psutil.Process(int(pid)).wait(60)
    except psutil.NoSuchProcess:
        pass  # gone already
    finally:
        shutil.rmtree(folder)
