"""The command lines of Kafka's programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eo_listener.broker.versions import Release
from eo_listener.java import Java

# Measured on two cores: the first compiler alone takes 0.5 s off a start of 4.7 s.
_QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """How to run a release of Kafka with a Java."""

    java: Java
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
