"""A PostgreSQL of the tests' own, on 127.0.0.1, as the demo starts its own.

EO_TEST_POSTGRES names another server by its dsn; what must stop or kill a server then starts its
own all the same.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator

import psutil
import psycopg
import pytest
from psycopg import sql

from examples.demo import postgres_server as of_the_demo

_END = 30.0  # seconds
_numbers = itertools.count()
_HBA = """\
host all checked 127.0.0.1/32 scram-sha-256
local all all trust
host all all 127.0.0.1/32 trust
"""
_SETTINGS = """\
fsync = off
max_connections = 60
shared_buffers = 64MB
log_min_messages = fatal
"""  # no machine loses its power in these tests, so fsync would only cost time


class PostgresServer(of_the_demo.PostgresServer):
    """One server on 127.0.0.1; the role postgres needs no password, the role checked does."""

    def __init__(self) -> None:
        super().__init__(host="127.0.0.1", conf=_SETTINGS, hba=_HBA)

    @property
    def pid(self) -> int:
        """The process to stop, continue or kill."""
        return self.process.pid

    def kill(self) -> None:
        """End the server and all its backends at once, as a crash does."""
        backends = psutil.Process(self.pid).children()
        self.process.kill()
        self.process.wait(_END)
        for backend in backends:
            with contextlib.suppress(psutil.NoSuchProcess):
                backend.kill()
        psutil.wait_procs(backends, timeout=_END)


@contextlib.contextmanager
def running() -> Iterator[PostgresServer]:
    """A server for a `with` block."""
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
