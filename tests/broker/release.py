"""A release of Apache Kafka: its jars, and how its programs are started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from eo_listener.spark import java
from tests.artifacts import Artifact, ClassArchive, cache_folder, fetch
from tests.artifacts.store import parse_sums

KNOWN: Final = ("4.1.2", "3.9.2")  # those whose every file is known by its SHA-256
DEFAULT: Final = KNOWN[0]

_HERE = Path(__file__).parent
# Without a binding for slf4j Kafka logs nothing at all, and its poms name none. Of two versions
# of log4j-core Ivy takes the newer one, so this binding never meets one older than itself.
_LOG4J2 = Artifact.of("org.apache.logging.log4j:log4j-slf4j-impl:2.25.3")
_RELOAD4J = Artifact.of("org.slf4j:slf4j-reload4j:1.7.36")
# Measured on two cores: the first compiler alone takes 0.5 s off a start of 4.7 s.
_QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


@dataclass(frozen=True, kw_only=True)
class Release:
    """One release, 3.9.0 or later."""

    version: str = DEFAULT
    on_progress: Callable[[str], None] = lambda _: None

    @cached_property
    def jars(self) -> tuple[Path, ...]:
        """Its jars, downloaded when this is the first time. Raises DownloadError and JavaError."""
        sums = _HERE / "checksums" / f"{self.version}.sha256"
        lines = sums.read_text().splitlines() if self.version in KNOWN else []
        return fetch(
            [
                Artifact.of(f"org.apache.kafka:kafka_2.13:{self.version}"),
                Artifact.of(
                    f"org.apache.kafka:kafka-tools:{self.version}",
                    without=("org.apache.kafka:connect-runtime",),
                ),
                _LOG4J2 if self._log4j2 else _RELOAD4J,
            ],
            cache_folder() / "kafka" / self.version,
            checksums=parse_sums(lines) or None,
            on_progress=self.on_progress,
        )

    def server(self, settings: Path, log: Path, options: Sequence[str]) -> list[str]:
        """Return the command line of a node; `options` are further ones for the JVM."""
        ours = ("-Xmx512m", *_QUICK, *self._logging("server", log), *options)
        return self._java(ours, "kafka.Kafka", str(settings))

    def storage_tool(self, *arguments: str) -> list[str]:
        return self._tool("kafka.tools.StorageTool", *arguments)

    def consumer_groups(self, servers: str, *arguments: str) -> list[str]:
        main = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        return self._tool(main, "--bootstrap-server", servers, *arguments)

    def _tool(self, *words: str) -> list[str]:
        return self._java(("-Xmx256m", *_QUICK, *self._logging("tool", Path("/dev/null"))), *words)

    @cached_property
    def class_archive(self) -> ClassArchive:
        return ClassArchive.of("kafka", self.version, self._classpath)

    @property
    def _classpath(self) -> str:
        return ":".join(map(str, self.jars))

    def _java(self, options: Sequence[str], *words: str) -> list[str]:
        program = str(java.find().executable)
        shared = self.class_archive.options
        return [program, *shared, *options, "-cp", self._classpath, *words]

    def _logging(self, kind: str, log: Path) -> tuple[str, ...]:
        if self._log4j2:
            config = f"-Dlog4j2.configurationFile={_HERE / 'logging' / f'{kind}.log4j2.xml'}"
        else:
            file = _HERE / "logging" / f"{kind}.log4j.properties"
            config = f"-Dlog4j.configuration={file.as_uri()}"
        return (config, f"-Deo.log={log}")

    @property
    def _log4j2(self) -> bool:
        return not self.version.startswith("3.")
