"""The data folder of a broker: where its parts lie, and what was formatted in it."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import javaproperties

from eo_listener.model.errors import FormatError, SettingsError
from tests.broker.releases import Release

_CLUSTER = re.compile(r"[A-Za-z0-9_-]{22}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """What a data folder was formatted for; written only after every node was formatted.

    `ports` holds for each node, from 1, the port of each listener, which clients may remember.
    """

    cluster_id: str
    version: str
    ports: Mapping[int, Mapping[str, int]]

    def __post_init__(self) -> None:
        """Raise ValueError or SettingsError for what was never written by us."""
        if not _CLUSTER.fullmatch(self.cluster_id):
            raise ValueError(f"{self.cluster_id!r} is not the id of a cluster")
        if not self.ports or sorted(self.ports) != list(range(1, self.nodes + 1)):
            raise ValueError("its nodes are not numbered from 1")
        for port in (port for own in self.ports.values() for port in own.values()):
            if not 1 <= port <= 65535:
                raise ValueError(f"a port must be from 1 to 65535, got {port}")
        Release(version=self.version)

    @property
    def nodes(self) -> int:
        """How many nodes were formatted."""
        return len(self.ports)

    @classmethod
    def read(cls, data: Path) -> Storage | None:
        """Return what `data` was formatted for, or None when it was not. Raises FormatError."""
        file = data / "storage.json"
        try:
            return cls._parse(json.loads(file.read_text()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        # A version that does not exist is a SettingsError: here it is the file's, not the user's.
        except (OSError, ValueError, SettingsError) as error:
            raise FormatError(
                f"The data folder is damaged: {file} cannot be read",
                cause=error.problem if isinstance(error, SettingsError) else str(error),
                fix="Choose another folder with --data, or remove this one",
            ) from error

    @classmethod
    def _parse(cls, document: object) -> Storage:
        match document:
            case {"cluster_id": str(cluster_id), "version": str(version), "ports": dict(ports)}:
                numbered = {int(node): _named(own) for node, own in ports.items()}
                return cls(cluster_id=cluster_id, version=version, ports=numbered)
            case _:
                raise ValueError("it is not what eo-listener writes")

    def write(self, data: Path) -> None:
        """Write it into `data`, whole or not at all."""
        replace_text(data / "storage.json", json.dumps(asdict(self)) + "\n")

    def require(self, *, nodes: int, version: str, data: Path) -> None:
        """Raise SettingsError when a broker of this size and release cannot open the data."""
        if nodes != self.nodes:
            raise SettingsError(
                f"{data} was made for {self.nodes} node(s), not {nodes}",
                fix=f"Use --nodes {self.nodes}, or another data folder",
            )
        if Release(version=version).number < Release(version=self.version).number:
            raise SettingsError(
                f"{data} was written by Kafka {self.version}, which {version} cannot read",
                fix=f"Use --version {self.version}, or another data folder",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFolder:
    """Where one node keeps its settings, its logs and its records."""

    data: Path
    node: int

    @property
    def path(self) -> Path:
        """The folder of the node."""
        return self.data / f"node-{self.node}"

    @property
    def settings(self) -> Path:
        """Its server.properties."""
        return self.path / "server.properties"

    @property
    def records(self) -> Path:
        """What Kafka calls its log directory."""
        return self.path / "records"

    @property
    def log(self) -> Path:
        """What Kafka logs."""
        return self.path / "server.log"

    @property
    def output(self) -> Path:
        """What the JVM itself printed."""
        return self.path / "output.log"

    def prepare(self, settings: Mapping[str, str], *, formatted: bool) -> None:
        """Write the settings; records of a format that was cut short are thrown away.

        Raises SettingsError where there are topics, which a new format would lose.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        if not formatted:
            self._refuse_topics()
            shutil.rmtree(self.records, ignore_errors=True)
        replace_text(self.settings, javaproperties.dumps(settings, timestamp=None))

    def _refuse_topics(self) -> None:
        topics = [f.name for f in self.records.glob("*-*") if not f.name.startswith("__cluster")]
        if topics:
            raise SettingsError(
                f"{self.data} holds topics, but no storage.json that says whose they are",
                cause="somebody removed it, or this is the data of another program",
                fix="Choose another folder with --data, or remove this one",
            )


def new_cluster_id() -> str:
    """Make up the id of a cluster in Kafka's form, URL-safe base64 of 16 bytes."""
    # An id that begins with "-" would be taken for an option by the StorageTool.
    identity = "-"
    while identity.startswith("-"):
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    return identity


def _named(ports: object) -> dict[str, int]:
    if not isinstance(ports, dict) or not all(type(port) is int for port in ports.values()):
        raise ValueError(f"{ports!r} does not name the ports of a node")
    return ports


def make_folder(data: Path) -> None:
    """Make sure that the data folder is there and can be written. Raises SettingsError."""
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        cause = str(error)
    else:
        if os.access(data, os.W_OK):
            return
        cause = "this user may not write there"
    raise SettingsError(f"{data} cannot hold data", cause=cause, fix="Choose another with --data")


def replace_text(file: Path, text: str) -> None:
    """Write `file` whole or not at all, readable by its owner alone: it may hold passwords."""
    new = file.with_name(f".{file.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as opened:
        opened.write(text)
    new.replace(file)
