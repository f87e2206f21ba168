"""The PostgreSQL server of tests and demo: it runs wherever its package lies."""

from __future__ import annotations

import shutil
import signal
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import psutil
import psycopg
import pytest

from tests import postgres_server
from tests.postgres_server import PACKAGE, PostgresServer
from tests.processes import Program


def test_it_starts_where_others_cannot_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root and as any user, from a package that was installed below a folder of mode 0700."""
    installed_spec = find_spec(PACKAGE)
    assert installed_spec is not None
    assert installed_spec.origin is not None
    installed = Path(installed_spec.origin).parent
    site = tmp_path / "site"
    site.mkdir(mode=0o700)
    left_out = shutil.ignore_patterns("pginstall", "include", "*.a", "__pycache__")
    for folder in (installed, installed.with_name(f"{PACKAGE}.libs")):
        shutil.copytree(folder, site / folder.name, ignore=left_out)
    for path in (site, *site.rglob("*")):
        path.chmod(path.stat().st_mode & 0o700)
    spec = ModuleSpec(PACKAGE, None, origin=str(site / PACKAGE / "__init__.py"))
    monkeypatch.setattr(postgres_server, "find_spec", lambda _: spec)
    before = {path: path.stat().st_mode for path in (site, *site.parents)}
    server = PostgresServer()
    try:
        server.start()
        with psycopg.connect(server.dsn()) as link:
            assert link.execute("SELECT 1").fetchone() == (1,)
        owner = psutil.Process(server.pid).uids().real
        assert owner == server.folder.stat().st_uid
        assert owner != 0
        assert server.folder.stat().st_mode & 0o077 == 0
    finally:
        server.close()
    assert not server.folder.exists()
    assert {path: path.stat().st_mode for path in before} == before


def test_it_ends_with_the_process_that_started_it() -> None:
    """SIGKILL of that one leaves no server."""
    program = (
        "import signal, os\n"
        "from tests.postgres_server import PostgresServer\n"
        "server = PostgresServer(); server.start()\n"
        "print(server.pid, server.folder, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with Program([sys.executable, "-c", program]) as python:
        assert python.ending(seconds=120)[0] == -signal.SIGKILL
    pid, folder = python.lines[0].split()
    try:
        psutil.Process(int(pid)).wait(60)
    except psutil.NoSuchProcess:
        pass  # gone already
    finally:
        shutil.rmtree(folder)
