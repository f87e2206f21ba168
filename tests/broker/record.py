"""The note that a detached broker leaves, so that it can be found and ended by its id."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from eo_listener.model.errors import FormatError
from tests.broker.errors import BrokerError
from tests.broker.listeners import HOST
from tests.broker.storage import replace_text

_CLOSE = 0.5  # seconds; Linux counts a process's creation in hundredths since boot


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """One node: its process, by id and time of creation, and where it listens and logs."""

    node: int
    pid: int
    created: float
    port: int
    log: str

    def process(self) -> psutil.Process | None:
        """Return the process if it still is this one, never another that was given its id."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) < _CLOSE
            if same and process.status() != psutil.STATUS_ZOMBIE:
                return process
        except psutil.NoSuchProcess:
            pass  # it has ended: the answer is None
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A detached broker, as it was when it started; `properties` can hold secrets."""

    version: str
    data: str
    nodes: tuple[NodeRecord, ...]
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, data: Path) -> Record | None:
        """Return the record that lies in `data`, or None. Raises FormatError and BrokerError."""
        file = _file(data)
        try:
            fields = json.loads(file.read_text())
            nodes = tuple(_node(node) for node in fields.pop("nodes"))
            properties = dict(fields.pop("properties"))
            return cls(**fields, nodes=nodes, properties=properties)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            raise not_ours(data) from error
        except OSError as error:
            raise BrokerError(
                f"{file} could not be read",
                cause=str(error),
                fix="Try again when it can be read: it says which processes the broker has",
            ) from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FormatError(
                f"{file} is damaged",
                cause=str(error),
                fix="End the broker's Java process yourself, then remove this file",
            ) from error

    def write(self) -> None:
        """Write it into its data folder, whole or not at all."""
        replace_text(_file(Path(self.data)), json.dumps(asdict(self), indent=2) + "\n")

    def remove(self) -> None:
        """Take it away once nothing of the broker runs any more."""
        _file(Path(self.data)).unlink(missing_ok=True)

    @property
    def bootstrap_servers(self) -> str:
        """The plain listener of every node."""
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes)

    def difference(
        self,
        *,
        version: str | None,
        nodes: int | None,
        port: int | None,
        properties: Mapping[str, str],
    ) -> str | None:
        """Say how this broker is not the one that is asked for; what is not named may be any.

        Of a property only the name is reported: its value may be a secret.
        """
        if version not in (None, self.version):
            return f"as Kafka {self.version}, not {version}"
        if nodes not in (None, len(self.nodes)):
            return f"with {len(self.nodes)} node(s), not {nodes}"
        if port not in (None, self.nodes[0].port):
            return f"on port {self.nodes[0].port}, not {port}"
        for name, value in properties.items():
            if self.properties.get(name) != value:
                return f"with another value of the property {name}"
        return None

    def running(self) -> tuple[NodeRecord, ...]:
        """Return the nodes whose process is there."""
        return tuple(node for node in self.nodes if node.process() is not None)


def not_ours(data: Path) -> BrokerError:
    """Another user has made the folder, whose broker is theirs alone."""
    return BrokerError(
        f"{data} belongs to another user",
        cause="what a broker keeps there can be read and changed by the user who has started it",
        fix="Run this as that user, or name a folder of your own with --data",
    )


def _node(fields: object) -> NodeRecord:
    match fields:
        case {
            "node": int(node),
            "pid": int(pid),
            "created": float(created),
            "port": int(port),
            "log": str(log),
        }:
            return NodeRecord(node=node, pid=pid, created=created, port=port, log=log)
    raise ValueError("a node in it is not what eo-listener writes")


def _file(data: Path) -> Path:
    return data / "broker.json"
