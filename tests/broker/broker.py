"""A real Apache Kafka on this machine, for development and tests."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, final

from eo_listener.model.errors import SettingsError
from eo_listener.spark import java
from tests.broker import ports, programs
from tests.broker.errors import BrokerError
from tests.broker.listeners import CONTROLLER, HOST, MAIN, Listener
from tests.broker.node import START_TIMEOUT, Node, wait_until_ready
from tests.broker.node_properties import node_properties, require_settable
from tests.broker.programs import Commands
from tests.broker.record import NodeRecord, Record
from tests.broker.releases import DEFAULT, Release
from tests.broker.storage import NodeFolder, Storage, make_folder, new_cluster_id
from tests.broker.watchdog import Watchdog

TRIES: Final = 3  # a free port can be taken between its choice and its use
STOP_TIMEOUT: Final = 20.0  # seconds between the polite and the hard end


@final
class Broker:
    """One or more nodes of Kafka in KRaft mode; a context manager that leaves nothing behind.

    `version` is a release of Kafka; `nodes` how many processes, each broker and controller;
    `port` that of the plain listener (None takes a free one); `properties` any broker settings,
    which win over ours; `listeners` further ones; `data` a folder that is kept and used again
    (None takes a temporary one, removed at the end); `java_options` further ones for the JVM;
    `on_progress` is called with lines that report progress.

    The processes end with this Python however it ends, unless `detach` lets them live on.
    Not for use by several threads at once.
    """

    def __init__(
        self,
        *,
        version: str = DEFAULT,
        nodes: int = 1,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        listeners: Sequence[Listener] = (),
        data: Path | None = None,
        java_options: Sequence[str] = (),
        on_progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        if nodes < 1:
            raise SettingsError(f"A broker cannot have {nodes} nodes", fix="Use --nodes 1 or more")
        self.release = Release(version=version)
        self._size = nodes
        self._numbers = range(1, nodes + 1)
        self._named = {MAIN: port, CONTROLLER: None} | {item.name: item.port for item in listeners}
        self._properties = dict(properties or {})
        require_settable(self._properties)
        self._listeners = tuple(listeners)
        self._kept = data.absolute() if data is not None else None
        self._options = tuple(java_options)
        self._say = on_progress
        self._data: Path | None = None
        self._commands: Commands | None = None
        self._watchdog: Watchdog | None = None
        self._ports: dict[int, dict[str, int]] = {}
        self._nodes: dict[int, Node] = {}
        self._owner = os.getpid()

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        """The process id of each node that runs."""
        return {number: node.pid for number, node in self._nodes.items() if node.pid is not None}

    def addresses(self, listener: str) -> str:
        """Return where the nodes listen under this name, whatever they advertise."""
        host = next((one.host for one in self._listeners if one.name == listener), HOST)
        return ",".join(f"{host}:{own[listener]}" for own in self._ports.values())

    def log(self, node: int = 1) -> Path:
        """Return the log file of a node."""
        return NodeFolder(data=self.data, node=node).log

    def start(self) -> None:
        """Start all nodes and return when they answer.

        Raises SettingsError, JavaError or DownloadError before a process is started, and
        BrokerError when Kafka does not start; its logs are then kept.
        """
        if self._nodes:
            raise BrokerError("The broker was started already", fix="Use restart()")
        runtime = java.find()
        if self._kept is not None:
            make_folder(self._kept)
        previous = self._previous_ports()
        assigned = ports.assign(self._size, self._named, previous)  # a taken port is said first
        self._commands = Commands(
            java=runtime, release=self.release, jars=self.release.jars(self._say)
        )
        self._data = self._kept or Path(tempfile.mkdtemp(prefix="eo-broker-"))
        try:
            self._watchdog = Watchdog()
            atexit.register(self._at_exit)
            self._start_somewhere(assigned)
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
        for one in self._chosen(node):
            one.kill()

    def restart(self, node: int | None = None) -> None:
        """Start one node, or all, on the same data and ports; stop it before if it runs."""
        chosen = self._chosen(node)
        _stop(chosen)
        for one in chosen:
            one.start()
        self._wait(chosen)

    def pause(self, node: int | None = None) -> None:
        """Hold one node, or all: connections stay open and nothing answers (SIGSTOP)."""
        for one in self._chosen(node):
            one.pause()

    def resume(self, node: int | None = None) -> None:
        """Let one node, or all, go on after a pause."""
        for one in self._chosen(node):
            one.resume()

    def consumer_groups(self, group: str, *arguments: str) -> str:
        """Return what Kafka's own kafka-consumer-groups prints for a group.

        `arguments` follow `--describe`, such as `--state`. Raises BrokerError.
        """
        if self._commands is None:
            raise BrokerError("The broker was not started")
        return programs.consumer_groups(self._commands, self.bootstrap_servers, group, *arguments)

    def record(self) -> Record:
        """Return how to find the running nodes again after this Python."""
        return Record(
            version=self.release.version,
            data=str(self.data),
            properties=self._properties,
            nodes=tuple(
                NodeRecord(
                    node=number,
                    pid=pid,
                    created=self._nodes[number].created(),
                    port=self._ports[number][MAIN],
                    log=str(self.log(number)),
                )
                for number, pid in self.pids.items()
            ),
        )

    def detach(self) -> None:
        """Let the nodes live on when this Python ends; keep a `record` to stop them by.

        Raises SettingsError for a broker on a temporary folder, which nobody would remove.
        """
        if self._kept is None:
            raise SettingsError(
                "A broker on a temporary folder cannot be detached", fix="Give it a data folder"
            )
        for node in self._nodes.values():
            node.release()
        self._end(keep=True)

    def _previous_ports(self) -> Mapping[int, Mapping[str, int]]:
        stored = Storage.read(self._kept) if self._kept is not None else None
        if self._kept is None or stored is None:
            return {}
        stored.require(nodes=self._size, version=self.release.version, data=self._kept)
        return stored.ports

    def _start_somewhere(self, assigned: dict[int, dict[str, int]]) -> None:
        for attempt in range(1, TRIES + 1):
            self._ports = assigned
            self._prepare()
            for node in self._nodes.values():
                node.start()
            try:
                self._wait(self._nodes.values())
            except BrokerError:
                taken = any(node.port_was_taken() for node in self._nodes.values())
                if not taken or attempt == TRIES:
                    raise
                self._say("a free port was taken meanwhile: choosing others")
                _stop(self._nodes.values())
                assigned = ports.assign(self._size, self._named, {})
            else:
                return

    def _prepare(self) -> None:
        """Write each node's settings, and format its storage unless that was done before."""
        if self._commands is None or self._watchdog is None:
            raise BrokerError("The broker was not started")
        stored = Storage.read(self.data)
        cluster = stored.cluster_id if stored is not None else new_cluster_id()
        self._nodes = {}
        for number in self._numbers:
            folder = NodeFolder(data=self.data, node=number)
            settings = node_properties(
                node=number,
                ports=self._ports,
                listeners=self._listeners,
                folder=folder.records,
                wanted=self._properties,
            )
            folder.prepare(settings, formatted=stored is not None)
            if stored is None:
                self._say(f"formatting the storage of node {number}")
                programs.format_storage(self._commands, folder, cluster)
            command = self._commands.serve(folder.settings, folder.log, self._options)
            self._nodes[number] = Node(folder, command, self._watchdog)
        storage = Storage(cluster_id=cluster, version=self.release.version, ports=self._ports)
        storage.write(self.data)

    def _wait(self, started: Iterable[Node]) -> None:
        nodes = list(started)
        self._say("waiting for Kafka to answer")

        def check() -> None:
            for node in nodes:
                if not node.running:
                    raise node.failure("ended instead of answering")

        addresses = [f"{HOST}:{self._ports[node.number][MAIN]}" for node in nodes]
        running = frozenset(self.pids)
        if not wait_until_ready(addresses, running, check):
            raise nodes[0].failure(f"did not answer within {START_TIMEOUT:.0f} s")

    def _chosen(self, node: int | None) -> list[Node]:
        if not self._nodes:
            raise BrokerError("The broker is not running", fix="Start it first")
        if node is None:
            return list(self._nodes.values())
        if node not in self._nodes:
            raise SettingsError(
                f"the node must be from 1 to {self._size}, got {node}", fix="Give one of these"
            )
        return [self._nodes[node]]

    def _at_exit(self) -> None:
        self.stop()

    def _end(self, *, keep: bool) -> None:
        temporary = self._kept is None and self._data is not None
        if temporary:
            for node in self._nodes.values():
                node.kill()  # nobody reads these data again: no reason to be polite
        _stop(self._nodes.values())
        self._nodes.clear()
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None
        atexit.unregister(self._at_exit)
        if temporary and not keep and self._data is not None:
            shutil.rmtree(self._data, ignore_errors=True)


def _stop(nodes: Iterable[Node]) -> None:
    chosen = list(nodes)
    for node in chosen:
        node.terminate()
    for node in chosen:
        if not node.reap(STOP_TIMEOUT):
            node.kill()
