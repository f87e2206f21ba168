"""Run the Ivy that ships inside Spark."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import quoteattr

from eo_listener.errors import UnavailableError, install
from eo_listener.spark import java
from eo_listener.spark.session import installation

LONGEST_RUN: Final = 1800.0  # seconds; a slow line needs minutes for a broker's 45 MB
SETTINGS_VARIABLE: Final = "EO_LISTENER_IVY_SETTINGS"

_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"
# Ivy's own defaults would also ask ~/.ivy2/local, where other tools leave half-filled modules.
_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
_FAILED = re.compile(
    r"^\s*(:: \S+#\S+;.*|\[(?:FAILED|NOT FOUND)\s*\].*|.*Server access error.*)$", re.MULTILINE
)


class DownloadError(UnavailableError):
    """An artifact could not be fetched, or its checksum is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One thing to fetch; `transitive` also what it needs, except for `without` and their needs."""

    organisation: str
    name: str
    revision: str
    classifier: str | None = None
    extension: str = "jar"
    transitive: bool = True
    without: tuple[str, ...] = ()

    @classmethod
    def of(cls, coordinates: str, **how: Any) -> Artifact:
        """The one of `organisation:name:revision`."""
        organisation, name, revision = coordinates.split(":")
        return cls(organisation=organisation, name=name, revision=revision, **how)

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.revision}"

    @property
    def filename(self) -> str:
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.revision}{classifier}.{self.extension}"


def run(
    wanted: Sequence[Artifact], into: Path, cache: Path, log: Path, say: Callable[[str], None]
) -> None:
    """Fetch `wanted` into a folder, unless it is in `cache`. Raises JavaError and DownloadError."""
    cache.mkdir(exist_ok=True)
    (cache / "ivy.xml").write_text(_descriptor(wanted))
    settings = os.environ.get(SETTINGS_VARIABLE)
    if not settings:
        settings = str(cache / "ivysettings.xml")
        Path(settings).write_text(_SETTINGS)
    command = [str(java.find(oldest=8).executable), f"-Divy.default.ivy.user.dir={cache}"]
    command += ["-jar", str(ivy_jar()), "-settings", settings, "-cache", str(cache)]
    command += ["-ivy", str(cache / "ivy.xml"), "-confs", "default"]
    command += ["-retrieve", str(into / _PATTERN)]
    with (
        log.open("w") as kept,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        timer = threading.Timer(LONGEST_RUN, process.kill)
        timer.start()
        try:
            for line in process.stdout or ():
                kept.write(line)
                if line.strip().startswith(("found ", "downloading ")):
                    say(line.strip())
        except BaseException:
            process.kill()  # an interrupted download must not leave its Java behind
            raise
        finally:
            timer.cancel()
    failed = _FAILED.search(log.read_text())
    if process.returncode != 0 or failed:
        raise DownloadError(
            f"Could not download {', '.join(map(str, wanted))}",
            cause=failed[1].strip(" :") if failed else "Ivy ended with an error, or ran too long",
            fix=f"Read {log}. A proxy is set by JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST "
            f"-Dhttps.proxyPort=PORT'; for a mirror let {SETTINGS_VARIABLE} name an "
            "ivysettings.xml",
        )


def _descriptor(wanted: Sequence[Artifact]) -> str:
    """Return the ivy.xml that makes Ivy fetch all of `wanted` in one run, versions reconciled."""
    return f"""\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="io.github.eolistener" module="fetch"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{chr(10).join(map(_dependency, wanted))}
  </dependencies>
</ivy-module>
"""


def _dependency(artifact: Artifact) -> str:
    name, extension = quoteattr(artifact.name), quoteattr(artifact.extension)
    parts = ""
    if artifact.classifier is not None or artifact.extension != "jar":
        classifier = (
            f" m:classifier={quoteattr(artifact.classifier)}" if artifact.classifier else ""
        )
        parts = f"<artifact name={name} type={extension} ext={extension}{classifier}/>"
    for excluded in artifact.without:
        organisation, _, module = excluded.partition(":")
        parts += f"<exclude org={quoteattr(organisation)} module={quoteattr(module)}/>"
    return (
        f"<dependency org={quoteattr(artifact.organisation)} name={name}"
        f' rev={quoteattr(artifact.revision)} conf="default->default"'
        f' transitive="{str(artifact.transitive).lower()}">{parts}</dependency>'
    )


def ivy_jar() -> Path:
    """Return the Ivy of the first Spark that has one. Raises DownloadError."""
    for home in installation.spark_homes():
        for jar in sorted(home.glob("jars/ivy-*.jar")):
            return jar
    raise DownloadError(
        "Nothing can be downloaded without Spark, which brings the downloader (Ivy)",
        fix=install("spark"),
    )
