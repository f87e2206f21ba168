"""Kafka's own programs: their command lines, and those that are run to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eo_listener.spark import java
from tests.broker.errors import BrokerError
from tests.broker.releases import DEFAULT, Release
from tests.broker.storage import NodeFolder

TIMEOUT: Final = 60.0  # seconds; each of them takes one or two

# Measured on two cores: the first compiler alone takes 0.5 s off a start of 4.7 s.
_QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """How to run a release of Kafka with a Java."""

    java: java.Java
    release: Release
    jars: Sequence[Path]

    def format(self, settings: Path, cluster_id: str) -> list[str]:
        """Kafka's StorageTool, which a node needs once before it first starts."""
        arguments = ["format", "-t", cluster_id, "-c", str(settings)]
        return [*self._tool(), "kafka.tools.StorageTool", *arguments]

    def serve(self, settings: Path, log: Path, options: Sequence[str]) -> list[str]:
        """A node; `options` are further ones for the JVM, and win over ours."""
        ours = ["-Xmx512m", *_QUICK, *self.release.logging_options("server", log)]
        return [*self._java(), *ours, *options, *self._classes(), "kafka.Kafka", str(settings)]

    def consumer_groups(self, bootstrap_servers: str, *arguments: str) -> list[str]:
        """The program behind kafka-consumer-groups.sh."""
        main = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        return [*self._tool(), main, "--bootstrap-server", bootstrap_servers, *arguments]

    def _tool(self) -> list[str]:
        logging = self.release.logging_options("tool", Path("/dev/null"))
        return [*self._java(), "-Xmx256m", *_QUICK, *logging, *self._classes()]

    def _java(self) -> list[str]:
        return [str(self.java.executable)]

    def _classes(self) -> list[str]:
        return ["-cp", ":".join(map(str, self.jars))]


def commands(version: str = DEFAULT) -> Commands:
    """Return how to run the programs of a release. Raises JavaError and DownloadError."""
    release = Release(version=version)
    return Commands(java=java.find(), release=release, jars=release.jars())


def format_storage(program: Commands, folder: NodeFolder, cluster_id: str) -> None:
    """Prepare the storage of a node, once in its life.

    Raises BrokerError with what the StorageTool said; it also checks every property.
    """
    command = program.format(folder.settings, cluster_id)
    answer = _run(command, f"Formatting {folder.records}", folder.path)
    if answer.returncode == 0:
        return
    folder.output.write_text(answer.stdout + answer.stderr)
    said = _lines(answer)
    thrown = [line for line in said if "Exception" in line and not line.startswith("\t")]
    raise BrokerError(
        f"Kafka refused to format the storage of node {folder.node}",
        cause=(thrown or said or ["it printed nothing"])[-1],
        fix=f"Check the properties. Full output: {folder.output}",
    )


def consumer_groups(program: Commands, bootstrap_servers: str, group: str, *arguments: str) -> str:
    """Return what `kafka-consumer-groups --describe` prints for a group (about 1.5 s).

    `arguments` are further ones, such as `--state` or `--command-config FILE`.
    Raises BrokerError when it fails; a group that does not exist is such a failure.
    """
    command = program.consumer_groups(bootstrap_servers, "--describe", "--group", group, *arguments)
    answer = _run(command, f"kafka-consumer-groups on {bootstrap_servers}")
    failures = [line for line in _lines(answer) if line.startswith("Error: ")]
    if answer.returncode != 0 or failures:
        raise BrokerError(
            f"kafka-consumer-groups could not describe the group {group!r}",
            cause=(failures or _lines(answer) or ["it printed nothing"])[0].strip(),
            fix=f"Check the group's name and that {bootstrap_servers} answers",
        )
    return answer.stdout.strip("\n") + "\n"


def _run(
    command: Sequence[str], what: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BrokerError(
            f"{what} did not end within {TIMEOUT:.0f} s",
            cause="the machine is busy, or the broker is held or does not answer",
            fix="Check that the broker runs, then try again",
        ) from error


def _lines(answer: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in f"{answer.stdout}\n{answer.stderr}".splitlines() if line.strip()]
