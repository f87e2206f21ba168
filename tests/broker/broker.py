"""A real Apache Kafka on this machine."""

from __future__ import annotations

import atexit
import base64
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, final

import javaproperties
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.broker.node import BrokerError, Node
from tests.broker.release import DEFAULT, Release
from tests.broker.settings import (
    CONTROLLER,
    HOST,
    MAIN,
    Listener,
    free_ports,
    is_free,
    node_settings,
)
from tests.processes import finished

_TRIES: Final = 3  # a free port can be taken between its choice and its use
_START: Final = 60.0  # seconds; twelve times what a start takes on two cores
_TOOL: Final = 60.0  # seconds; each of Kafka's programs takes one or two


@final
class Broker:
    """Nodes of Kafka in KRaft mode, for one thread; a context manager that leaves nothing behind.

    `port` is that of the first node's plain listener, `folder` where the data lie.
    """

    def __init__(
        self,
        *,
        version: str = DEFAULT,
        nodes: int = 1,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        listeners: Sequence[Listener] = (),
        folder: Path | None = None,
        java_options: Sequence[str] = (),
        on_progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.release = Release(version=version, on_progress=on_progress)
        self._size = nodes
        self._port = port
        self._properties = dict(properties or {})
        self._listeners = tuple(listeners)
        self._folder = folder
        self._options = tuple(java_options)
        self._say = on_progress
        self._data: Path | None = None
        self._ports: dict[int, dict[str, int]] = {}
        self._nodes: dict[int, Node] = {}
        self._owner = os.getpid()

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """The plain listener of every node, as clients want it."""
        return self.addresses(MAIN)

    @property
    def data(self) -> Path:
        """The folder of this broker: one folder for each node, with its log and settings."""
        if self._data is None:
            raise BrokerError("The broker was not started")
        return self._data

    @property
    def pids(self) -> dict[int, int]:
        return {number: pid for number, node in self._nodes.items() if (pid := node.pid)}

    def addresses(self, listener: str) -> str:
        """Return where the nodes listen under this name, whatever they advertise."""
        host = next((item.host for item in self._listeners if item.name == listener), HOST)
        return ",".join(f"{host}:{own[listener]}" for own in self._ports.values())

    def log(self, node: int = 1) -> Path:
        return self._nodes[node].log

    def records(self, node: int = 1) -> Path:
        return self.data / f"node-{node}" / "records"

    def start(self) -> None:
        """Start all nodes and return when they answer; the logs of a BrokerError are kept."""
        if self._nodes:
            raise BrokerError("The broker was started already", fix="Use restart()")
        if self._port is not None and not is_free(self._port):
            raise BrokerError(f"Port {self._port} of {HOST} is in use", fix="Name another one")
        self._data = self._folder or Path(tempfile.mkdtemp(prefix="eo-broker-"))
        atexit.register(self.stop)
        try:
            self._try_ports(_TRIES)
        except BrokerError:
            self._end(keep=True)
            raise
        except BaseException:
            self._end(keep=False)
            raise

    def stop(self) -> None:
        """End all nodes and, when the data folder is a temporary one, remove it."""
        if os.getpid() == self._owner:  # a fork of this Python does not own the processes
            self._end(keep=False)

    def kill(self, node: int | None = None) -> None:
        """End one node, or all, as a power cut would (SIGKILL)."""
        for chosen in self._chosen(node):
            chosen.kill()

    def restart(self, node: int | None = None) -> None:
        """Start one node, or all, on the same data and ports; stop it before if it runs."""
        chosen = self._chosen(node)
        for stopped in chosen:
            stopped.stop()
        self._start(chosen)

    def pause(self, node: int | None = None) -> None:
        """Hold one node, or all: connections stay open and nothing answers (SIGSTOP)."""
        for chosen in self._chosen(node):
            chosen.pause()

    def resume(self, node: int | None = None) -> None:
        for chosen in self._chosen(node):
            chosen.resume()

    def consumer_groups(self, group: str, *arguments: str) -> str:
        """Return what Kafka's own kafka-consumer-groups prints for a group (about 1.5 s)."""
        words = ("--describe", "--group", group, *arguments)
        answer = _run(self.release.consumer_groups(self.bootstrap_servers, *words))
        printed = f"{answer.stdout}\n{answer.stderr}".split("\n")
        failures = [line for line in printed if line.startswith("Error: ")]
        if answer.returncode != 0 or failures:
            raise BrokerError(
                f"kafka-consumer-groups could not describe the group {group!r}",
                cause=next((line.strip() for line in (*failures, *printed) if line.strip()), None),
            )
        return answer.stdout.strip("\n") + "\n"

    def _try_ports(self, tries: int) -> None:
        self._prepare()
        try:
            self._start(self._nodes.values())
        except BrokerError:
            taken = any(node.port_was_taken() for node in self._nodes.values())
            if tries == 1 or self._port is not None or not taken:
                raise
            self._say("a free port was taken meanwhile: choosing others")
            self.kill()
            self._try_ports(tries - 1)

    def _prepare(self) -> None:
        """Choose ports, write each node's settings, and format its storage."""
        numbers = range(1, self._size + 1)
        names = (MAIN, CONTROLLER, *(item.name for item in self._listeners))
        ports = iter(free_ports(self._size * len(names)))
        self._ports = {node: {name: next(ports) for name in names} for node in numbers}
        if self._port is not None:
            self._ports[1][MAIN] = self._port
        # The first byte is 0: an id that begins with "-" would be an option to the StorageTool.
        cluster = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).rstrip(b"=").decode()
        for number in numbers:
            folder, records = self.data / f"node-{number}", self.records(number)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            file = folder / "server.properties"
            command = self.release.server(file, folder / "server.log", self._options)
            node = Node(folder, command)
            settings = node_settings(
                number, self._ports, self._listeners, records, self._properties
            )
            file.write_text(javaproperties.dumps(settings, timestamp=None))
            self._say(f"formatting the storage of node {number}")
            _format(self.release.storage_tool("format", "-t", cluster, "-c", str(file)), folder)
            self._nodes[number] = node

    def _start(self, nodes: Iterable[Node]) -> None:
        """Start them, and wait until each answers with metadata that names all that run."""
        started = list(nodes)
        for node in started:
            node.start()
        self._say("waiting for Kafka to answer")
        running = self.pids.keys()
        deadline = time.monotonic() + _START
        for number in running:
            servers = f"{HOST}:{self._ports[number][MAIN]}"
            # What goes wrong while it starts is of no interest.
            quiet = {"log_level": 0, "reconnect.backoff.max.ms": 200}
            admin = AdminClient({"bootstrap.servers": servers, **quiet})
            while not _names(admin, running):
                for node in started:
                    if node.pid is None:
                        raise node.failure("ended instead of answering")
                if time.monotonic() > deadline:
                    raise self._nodes[number].failure(f"did not answer within {_START:.0f} s")
                time.sleep(0.05)

    def _chosen(self, node: int | None) -> list[Node]:
        if not self._nodes:
            raise BrokerError("The broker is not running", fix="Start it first")
        return list(self._nodes.values()) if node is None else [self._nodes[node]]

    def _end(self, *, keep: bool) -> None:
        for node in self._nodes.values():
            node.kill()  # nobody reads the data again: no reason to be polite
        self._nodes.clear()
        atexit.unregister(self.stop)
        if self._folder is None and self._data is not None and not keep:
            shutil.rmtree(self._data, ignore_errors=True)


def _names(admin: AdminClient, running: Iterable[int]) -> bool:
    try:
        return admin.list_topics(timeout=1).brokers.keys() >= set(running)
    except KafkaException:
        return False


def _format(command: Sequence[str], folder: Path) -> None:
    """Run the StorageTool, which also checks every property."""
    answer = _run(command)
    if answer.returncode != 0:
        said = [line for line in (answer.stdout + answer.stderr).splitlines() if line.strip()]
        thrown = [line for line in said if "Exception" in line and not line.startswith("\t")]
        output = folder / "output.log"
        output.write_text("\n".join(said))
        raise BrokerError(
            "Kafka refused to format its storage",
            cause=(thrown or said or ["it printed nothing"])[-1],
            fix=f"Check the properties. Full output: {output}",
        )


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return finished(command, stdin=subprocess.DEVNULL, errors="replace", timeout=_TOOL)
    except subprocess.TimeoutExpired as error:
        raise BrokerError(f"A program of Kafka did not end within {_TOOL:.0f} s") from error
