"""Which releases of Apache Kafka can be started, and what each of them is made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eo_listener.model.errors import SettingsError
from tests.artifacts import Artifact, cache_folder, fetch

DEFAULT: Final = "4.1.2"
OLDEST: Final = (3, 9)

_CHECKSUMS = Path(__file__).with_name("checksums")
_LOGGING = Path(__file__).with_name("logging")
# Without a binding for slf4j Kafka logs nothing at all, and its poms name none. Of two versions
# of log4j-core Ivy takes the newer one, so this binding never meets one older than itself.
_LOG4J2 = Artifact(
    organisation="org.apache.logging.log4j", name="log4j-slf4j-impl", revision="2.25.3"
)
_RELOAD4J = Artifact(organisation="org.slf4j", name="slf4j-reload4j", revision="1.7.36")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release of Kafka, such as 4.1.2."""

    version: str

    def __post_init__(self) -> None:
        """Raise SettingsError when this is not a version, or is too old."""
        if not re.fullmatch(r"\d+\.\d+\.\d+", self.version):
            raise SettingsError(
                f"{self.version!r} is not a version of Kafka",
                fix=f"Give three numbers, such as {DEFAULT}; tested: {', '.join(known())}",
            )
        if self.number[:2] < OLDEST:
            raise SettingsError(
                f"Kafka {self.version} is too old: the oldest that can be started is 3.9",
                fix=f"Use a later one; tested: {', '.join(known())}",
            )

    @property
    def number(self) -> tuple[int, ...]:
        """The version as numbers, to compare by."""
        return tuple(int(part) for part in self.version.split("."))

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """What Ivy has to bring."""
        return (
            Artifact(organisation="org.apache.kafka", name="kafka_2.13", revision=self.version),
            Artifact(
                organisation="org.apache.kafka",
                name="kafka-tools",
                revision=self.version,
                without=("org.apache.kafka:connect-runtime",),  # Connect: a third of all jars
            ),
            _LOG4J2 if self._log4j2 else _RELOAD4J,
        )

    @property
    def checksums(self) -> dict[str, str] | None:
        """File name to SHA-256 for a release we know, else None."""
        file = _CHECKSUMS / f"{self.version}.sha256"
        if not file.exists():
            return None
        pairs = (line.split("  ", 1) for line in file.read_text().splitlines())
        return {name: value for value, name in pairs}

    def jars(self, on_progress: Callable[[str], None] = lambda _: None) -> tuple[Path, ...]:
        """Return the jars of this release, downloaded when this is the first time.

        Raises DownloadError, and JavaError when a download is needed and there is no Java.
        """
        return fetch(
            self.artifacts,
            cache_folder() / "kafka" / self.version,
            checksums=self.checksums,
            on_progress=on_progress,
        )

    def logging_options(self, kind: str, log: Path) -> tuple[str, ...]:
        """Return the JVM options that make a `server` or a `tool` log as we want."""
        if self._log4j2:
            config = f"-Dlog4j2.configurationFile={_LOGGING / f'{kind}.log4j2.xml'}"
        else:
            config = f"-Dlog4j.configuration={(_LOGGING / f'{kind}.log4j.properties').as_uri()}"
        return (config, f"-Deo.log={log}")

    @property
    def _log4j2(self) -> bool:
        return self.number >= (4,)


def known() -> tuple[str, ...]:
    """Return the releases whose every file is known by its SHA-256, newest first."""
    found = (file.stem for file in _CHECKSUMS.glob("*.sha256"))
    return tuple(sorted(found, key=lambda v: [int(part) for part in v.split(".")], reverse=True))
