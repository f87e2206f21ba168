"""A ledger that may not be read, or is none: each command says the same of it, and ends alike."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from eo_listener.cli import ledger as ledger_command
from eo_listener.cli.audit import AuditOptions
from eo_listener.cli.options import as_properties
from eo_listener.cli.serve.audit_reading import read_audit
from eo_listener.errors import EoListenerError, ExitCode, SinkError
from eo_listener.sinks.postgres.ledger import ledger_sql
from eo_listener.sinks.postgres.ledger_reader import PostgresLedgerReader
from eo_listener.testing.made_up_entries import QUERY
from tests.broker import Broker
from tests.cli.commands import invoke
from tests.cli.sqlite_ledger import Store
from tests.conftest import StartBroker
from tests.postgres_server import dsn, postgres
from tests.sinks.kafka.conftest import place_at, write
from tests.sinks.kafka.frames import without_spark
from tests.sinks.kafka.locked import PASSWORD, PROPERTIES, start_locked
from tests.sinks.postgres.course import another_role, ask, script
from tests.topics import unique

__all__ = ["dsn", "postgres"]

_NOBODY = 65534
COMMANDS = {
    "show": "ledger show {ledger}",
    "rename": "ledger rename {ledger} --to-query other",
    "accept": "ledger accept {ledger} --partition flights-0 --gap 5..9",
    "audit": "audit --ledger {ledger}",
}
LOST = "if it was lost"  # no right is no reason to begin the query anew


def ends(command: str, ledger: str, *more: str) -> tuple[int, str]:
    """How a command of this ledger ends, and all that it says, in one line."""
    words = shlex.split(COMMANDS.get(command, command).format(ledger=shlex.quote(ledger)))
    try:
        ended = invoke(*words, *more)
    except EoListenerError as error:
        return error.exit_code, str(error)
    return ended.exit_code, " ".join(ended.output.split())


def on_the_page(ledger: str, servers: str | None = None, properties: Sequence[str] = ()) -> str:
    """What `serve` shows of it: the audit's findings, in one text."""
    client = None if servers is None else as_properties(servers, list(properties))
    request = AuditOptions(ledgers=[ledger]).request(client)
    found = read_audit(request)
    assert not found.complete
    return " ".join(f"{one.what} {one.cause} {one.fix}" for one in found.findings)


@contextmanager
def as_nobody() -> Iterator[None]:
    """As a user with no rights; the tests may run as root, to whom everything is allowed."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def store() -> Iterator[Store]:
    """A ledger in a folder that everybody may enter, as those of pytest are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Store(Path(folder) / "delays.db")


def no_right_to_the_file(path: Path) -> None:
    path.chmod(0)


def no_right_to_the_folder(path: Path) -> None:
    path.parent.chmod(0)


def of_another_kind(path: Path) -> None:
    path.write_bytes(b"flights and delays, " * 500)


def damaged(path: Path) -> None:
    pages = bytearray(path.read_bytes())
    pages[100:] = b"\xff" * (len(pages) - 100)
    path.write_bytes(pages)


def of_other_columns(path: Path) -> None:
    store = Store(path.with_name("other.db"))
    store.execute("ALTER TABLE eo_ledger RENAME COLUMN topic TO subject")
    store.path.replace(path)


@pytest.mark.parametrize(
    "make",
    [no_right_to_the_file, no_right_to_the_folder, of_another_kind, damaged, of_other_columns],
)
def test_a_file_that_cannot_be_read(store: Store, make: Callable[[Path], None]) -> None:
    """It could not be reached: 3, and why; nothing of a batch, which nobody wants to write."""

    def asked(address: str) -> dict[str, tuple[int, str]]:
        of_commands = {command: ends(command, address) for command in COMMANDS}
        return of_commands | {"page": (ExitCode.UNREACHABLE, on_the_page(address))}

    asked(f"{store.address}-absent")  # loads what is needed: nobody enters a checkout of mode 0700
    make(store.path)
    try:
        with as_nobody():
            found = asked(store.address)
    finally:
        store.path.parent.chmod(0o755)
    for code, text in found.values():
        assert code == ExitCode.UNREACHABLE, text
        assert str(store.path) in text
        assert "batch" not in text
    assert not [command for command in COMMANDS if LOST in found[command][1]]


@pytest.mark.parametrize("command", ["show", "rename", "accept"])
@pytest.mark.parametrize(
    "path",
    ["{folder}", "{folder}/absent.db", "{folder}/delays.db/absent", "~nobody-of-that-name/d.db"],
)
def test_what_is_no_file_is_wrong_use(store: Store, command: str, path: str) -> None:
    """The name is corrected and typed again."""
    named = path.format(folder=store.path.parent)
    code, text = ends(command, f"sqlite:{named}")
    assert (code, named in text) == (ExitCode.WRONG_USE, True), text


def test_an_audit_without_its_ledger_is_incomplete(store: Store) -> None:
    """Nobody knows whether the name is wrong or the ledger was lost, so it is 3, and says both."""
    code, text = ends("audit", f"{store.address}-absent")
    assert code == ExitCode.UNREACHABLE
    assert f"{store.path}-absent" in text
    assert LOST in text


RIGHTS = {
    "no SELECT": ("GRANT USAGE ON SCHEMA {schema} TO {role}",),
    "no USAGE": ("GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",),
    "neither": (),
}


@pytest.mark.parametrize("rights", RIGHTS)
def test_a_role_that_lacks_a_right(dsn: str, rights: str) -> None:
    """What is printed is typed, and then it may read; until then 3, wherever it is asked."""
    (schema,) = ask(dsn, "SELECT current_schema()")
    script(dsn, *(one.replace("%%", "%") for one in ledger_sql(schema).create()))
    with another_role(dsn, *RIGHTS[rights]) as limited:
        for command in COMMANDS:
            code, text = ends(command, limited)
            assert code == ExitCode.UNREACHABLE, text
            assert "permission denied" in text
            assert LOST not in text
        assert "GRANT USAGE" in on_the_page(limited)
        _, text = ends("show", limited)
        script(dsn, *text.partition("Fix: ")[2].split("; "))
        assert ends("show", limited)[0] == ExitCode.FOUND  # there is no ledger of a query yet


def test_rows_that_may_not_be_read(dsn: str) -> None:
    """It is the table whose right is missing then, not the ledger."""
    script(dsn, 'CREATE TABLE delays (topic text, partition int, "offset" bigint)')
    with another_role(dsn, RIGHTS["no SELECT"][0]) as limited:
        refused = pytest.raises(SinkError, match=r"the table delays.*GRANT SELECT ON delays TO ro")
        with closing(PostgresLedgerReader(limited)) as reader, refused as raised:
            list(reader.row_origins("delays", ("topic", "partition", "offset")))
    assert raised.value.exit_code == ExitCode.UNREACHABLE


@pytest.mark.kafka
def test_a_topic_that_may_not_be_read(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that gives Read is printed, and Read is enough; no secret is shown."""
    without_spark(monkeypatch)
    monkeypatch.setattr(ledger_command, "_java", lambda *_: (None, "there is none here"))
    locked = start_locked(start_broker)
    place = place_at(locked.inside)
    with place.opened:
        write(place.sink())
        login = [f"{key}={value}" for key, value in PROPERTIES.items()]
        more = ["-b", locked.servers, *(word for one in login for word in ("-X", one))]
        ledger = f"kafka:{place.ledger}"
        group = unique("g")
        locked.grant(f"kafka-acls --allow-principal User:al --operation Read --group {group}")
        commands = {**COMMANDS, "seed": f"group seed {group} --from-ledger {ledger}"}
        right = f"--operation Read --topic {place.ledger}"
        for command in commands.values():
            code, text = ends(command, ledger, *more)
            assert code == ExitCode.UNREACHABLE, text
            assert right in text
            assert PASSWORD not in text
            assert LOST not in text
        assert right in on_the_page(ledger, locked.servers, login)
        _, text = ends("show", ledger, *more)
        locked.grant(text.partition("cluster: ")[2])
        code, text = ends("show", ledger, *more)
        assert (code, QUERY in text) == (ExitCode.FINE, True), text


@pytest.mark.kafka
@pytest.mark.parametrize("make", [no_right_to_the_file, of_another_kind])
def test_a_group_is_not_seeded_from_what_cannot_be_read(
    store: Store, broker: Broker, make: Callable[[Path], None]
) -> None:
    """It ends as the commands of the ledger do."""
    make(store.path)
    words = f"group seed {unique('g')} -b {broker.bootstrap_servers} --from-ledger {store.address}"
    with as_nobody():
        code, text = ends(words, store.address)
    assert (code, f"cannot read {store.path}" in text) == (ExitCode.UNREACHABLE, True), text
