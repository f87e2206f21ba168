"""What a bad day is like in every command that there is: the list is the app's own."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import typer

from eo_listener import cli
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing.made_up_entries import entry_of
from tests.broker import Broker
from tests.cli.checkpoint_files import QUERY_ID, CheckpointFiles
from tests.cli.sqlite_ledger import Store
from tests.conftest import StartBroker
from tests.documents import terminal
from tests.processes import Program, finished
from tests.sinks.kafka.locked import PASSWORD, start_locked
from tests.topics import Topics

pytestmark = pytest.mark.kafka

COMMANDS: Mapping[str, str] = {
    "status": "{group} -b {servers}",
    "serve": "{group} -b {servers} --port 0",
    "audit": "-b {servers} -g {group} -c {checkpoint} --ledger {ledger}",
    "preflight": "-b {servers} -g {group} -t {topic}",
    "follow": "{checkpoint} -b {servers} -g {group} --once --timeout 5",
    "jar": "",
    "checkpoint show": "{checkpoint}",
    "group seed": "{group} -b {servers} --from-checkpoint {checkpoint}",
    "group rewind": "{group} -b {servers} --from-checkpoint {checkpoint}",
    "group import": "{group} {file} -b {servers}",
    "group export": "{group} -b {servers}",
    "ledger show": "{ledger}",
    "ledger rename": "{ledger} --to-query other",
    "ledger accept": "{ledger} --partition {topic}-0 --gap 10..15",
    "txn list": "-b {servers} --topic {topic}",
    "txn abort": "-b {servers} --transactional-id nobody",
}
"""As each is typed."""

SERVICES = frozenset({"serve", "follow"})
"""They go on until they are ended, and try again meanwhile."""
_COLOUR = re.compile(r"\x1b\[")


def of_the_app() -> set[str]:
    """The commands, as they are typed."""

    def walk(command: Any, words: tuple[str, ...] = ()) -> Iterator[str]:
        below = getattr(command, "commands", None)
        for name, one in (below or {}).items():
            yield from walk(one, (*words, name))
        if below is None:
            yield " ".join(words)

    return set(walk(cast(Any, typer.main.get_command(cli.app))))


def test_no_command_is_forgotten() -> None:
    """Whoever adds a command says here how it is typed."""
    assert set(COMMANDS) == of_the_app()


def asking(place: str) -> list[str]:
    return [name for name, words in COMMANDS.items() if place in words]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Whatever a command names that is on this machine."""
    folder = tmp_path_factory.mktemp("places")
    tp = TopicPartition("flights", 0)
    checkpoint = CheckpointFiles(folder / "checkpoint", {tp: 0}, {tp: 10})
    store = Store(folder / "delays.db")
    store.write(replace(entry_of({}, {tp: OffsetRange(0, 10)}), query_id=QUERY_ID))
    (folder / "offsets.csv").write_text("flights,0,5\n")
    return {
        "folder": str(folder / "brokers"),
        "checkpoint": str(checkpoint.folder),
        "ledger": store.address,
        "file": str(folder / "offsets.csv"),
        "group": "g",
        "topic": "flights",
    }


def words_of(name: str, places: Mapping[str, str], *more: str) -> list[str]:
    """The command line, as a shell would give it to the program."""
    filled = COMMANDS[name].format_map(places)
    return [sys.executable, "-m", "eo_listener", *name.split(), *shlex.split(filled), *more]


def unreachable(
    name: str, answer: subprocess.CompletedProcess[str], said: str, never: tuple[str, ...] = ()
) -> str | None:
    """What is wrong with the end of a command that must say this, and exit with 3."""
    text = answer.stdout + answer.stderr
    fine = answer.returncode == 3 and said in text
    fine = fine and not [one for one in ("Traceback", *never) if one in text]
    return None if fine else f"{name}: {answer.returncode}\n{text}"


def each(names: list[str], check: Callable[[str], str | None]) -> None:
    """Check commands, some at a time; what is wrong with any of them is said of all."""
    with ThreadPoolExecutor(4) as threads:
        wrong = [one for one in threads.map(check, names) if one]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
def test_a_broker_that_is_not_there(places: Mapping[str, str]) -> None:
    """One line that names it, and exit status 3."""

    def check(name: str) -> str | None:
        answer = finished(words_of(name, {**places, "servers": "127.0.0.1:1"}))
        return unreachable(name, answer, "127.0.0.1:1")

    each([one for one in asking("{servers}") if one != "serve"], check)


@pytest.mark.slow
def test_a_wrong_password(places: Mapping[str, str], start_broker: StartBroker) -> None:
    """Exit status 3 and why, without the password; nobody is sent to look at the address."""
    locked = start_locked(start_broker)
    wrong = PASSWORD + "-mistyped"
    login = ["-X", "security.protocol=sasl_plaintext", "-X", "sasl.mechanism=PLAIN"]
    login += ["-X", "sasl.username=al", "-X", f"sasl.password={wrong}"]

    def check(name: str) -> str | None:
        answer = finished(words_of(name, {**places, "servers": locked.servers}, *login))
        return unreachable(name, answer, "uthentication", ("address is right", wrong))

    each([one for one in asking("{servers}") if one != "serve"], check)


class SilentServer:
    """Takes connections and never answers, in a `with` block; `reached`: somebody has come."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._taken: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is shut down
            while True:
                self._taken.append(self._listener.accept()[0])
                self.reached.set()

    def __enter__(self) -> SilentServer:  # noqa: PYI034  # Python 3.10 has no Self
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(30)
        for one in (self._listener, *self._taken):
            one.close()


@pytest.mark.slow
def test_ctrl_c_while_nobody_answers(places: Mapping[str, str]) -> None:
    """It ends at once, with one line and status 130; what goes on until then ends with 0."""

    def check(name: str) -> str | None:
        with SilentServer() as server:
            dsn = f"postgresql://nobody@{server.address}/db"
            here = {**places, "servers": server.address}
            if "{servers}" not in COMMANDS[name]:
                here["ledger"] = dsn
            with Program(words_of(name, here)) as process:
                if not server.reached.wait(120):
                    return f"{name}: it asks nobody"
                try:
                    code, err = process.ending(signal.SIGINT, 20)
                except subprocess.TimeoutExpired:
                    return f"{name}: Ctrl-C does not end it"
        last = (0, 130) if name in SERVICES else (130,)
        said = "\n".join([*process.lines, *process.errors])
        fine = code in last and "Traceback" not in said
        stopped = code == 0 or err.endswith("eo-listener: stopped")
        return None if fine and stopped else f"{name}: {code}\n{said}"

    names = [*asking("{servers}"), *asking("{ledger}")]
    each(list(dict.fromkeys(names)), check)


@pytest.fixture(scope="module")
def there(places: Mapping[str, str], broker: Broker) -> dict[str, str]:
    """The same with a broker, and a group and a topic on it."""
    topics = Topics(broker.bootstrap_servers)
    topic = topics.create("flights", 1)
    topics.fill(topic, 20)
    return {**places, "servers": broker.bootstrap_servers, "topic": topic}


@pytest.mark.slow
def test_no_terminal_and_a_narrow_one_without_colours(there: Mapping[str, str]) -> None:
    """In a pipe there are no escapes; on 80 columns tables fit, and NO_COLOR has none either."""

    def check(name: str) -> str | None:
        words, plain = words_of(name, there), {"NO_COLOR": "1"}
        piped = finished(words).stdout
        found = terminal.shown(words, columns=80, lines=24, folder=Path(), environment=plain)
        shown = found.text.replace("\r\n", "\n")
        if _COLOUR.search(piped) or re.search(r"\x1b\[[0-9;]*3[0-9]", shown):
            return f"{name}: there are colours\n{piped}\n{shown}"
        wide = [line for line in shown.splitlines() if len(line) > 80 and "│" in line]
        return f"{name}: too wide\n{shown}" if wide else None

    each([one for one in COMMANDS if one not in SERVICES], check)
