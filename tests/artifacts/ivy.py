"""Run the Ivy that ships inside Spark, and understand what it prints."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from eo_listener.model.errors import few, install
from eo_listener.spark import java
from eo_listener.spark.session import installation
from tests.artifacts.errors import DownloadError

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
_NETWORK = re.compile(
    r"Server access error|UnknownHostException|ConnectException|SocketTimeout|SSLHandshake"
)
_UNRESOLVED = re.compile(r"^\s*:: (\S+#\S+;\S+?)(?:: (.*))?$", re.MULTILINE)
_FAILED = re.compile(r"^\s*\[(?:FAILED|NOT FOUND)\s*\] (\S+#\S+;\S+!\S+)", re.MULTILINE)


class NoSuchArtifactError(DownloadError):
    """The repository answered, and does not have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One thing to fetch by its Maven coordinates.

    `transitive` brings what it depends on, except for `without` (`"organisation:name"` each)
    and what only those need.
    """

    organisation: str
    name: str
    revision: str
    classifier: str | None = None
    extension: str = "jar"
    transitive: bool = True
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.revision}"

    @property
    def filename(self) -> str:
        """The name of its file in a folder that `fetch` filled."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.revision}{classifier}.{self.extension}"


def run(
    wanted: Sequence[Artifact], into: Path, *, cache: Path, log: Path, say: Callable[[str], None]
) -> None:
    """Fetch `wanted` into the empty folder `into`; what a run that was cut short left in `cache`
    is not fetched again.

    Raises JavaError, and DownloadError which names the `log`.
    """
    runtime, ivy = java.find(oldest=8), ivy_jar()
    cache.mkdir(exist_ok=True)
    (cache / "ivy.xml").write_text(render_ivy(wanted))
    settings = os.environ.get(SETTINGS_VARIABLE)
    if not settings:
        (cache / "ivysettings.xml").write_text(_SETTINGS)
    command = [str(runtime.executable), f"-Divy.default.ivy.user.dir={cache}", "-jar", str(ivy)]
    command += ["-settings", settings or str(cache / "ivysettings.xml")]
    command += ["-cache", str(cache), "-ivy", str(cache / "ivy.xml"), "-confs", "default"]
    command += ["-retrieve", str(into / _PATTERN)]
    lines: list[str] = []
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
        _killed_after(LONGEST_RUN, process),
    ):
        for line in process.stdout or ():
            kept.write(line)
            lines.append(line)
            if (news := progress(line, lines)) is not None:
                say(news)
    text = "".join(lines)
    if process.returncode != 0 or _FAILED.search(text):
        raise explain(text, wanted, log)


def render_ivy(wanted: Sequence[Artifact]) -> str:
    """Write the module descriptor that makes Ivy fetch all of `wanted` in one run."""
    dependencies = "\n".join(_render_dependency(artifact) for artifact in wanted)
    return f"""\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="io.github.eolistener" module="fetch"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


def _render_dependency(artifact: Artifact) -> str:
    name, extension = quoteattr(artifact.name), quoteattr(artifact.extension)
    head = (
        f"    <dependency org={quoteattr(artifact.organisation)} name={name}"
        f' rev={quoteattr(artifact.revision)} conf="default->default"'
        f' transitive="{str(artifact.transitive).lower()}"'
    )
    parts = []
    if artifact.classifier is not None or artifact.extension != "jar":
        classifier = (
            f" m:classifier={quoteattr(artifact.classifier)}" if artifact.classifier else ""
        )
        parts.append(f"<artifact name={name} type={extension} ext={extension}{classifier}/>")
    for excluded in artifact.without:
        organisation, _, module = excluded.partition(":")
        parts.append(f"<exclude org={quoteattr(organisation)} module={quoteattr(module)}/>")
    return f"{head}>{''.join(parts)}</dependency>"


def progress(line: str, lines: Sequence[str]) -> str | None:
    """Say in a few words what a line of Ivy's output means; `lines` are those up to it."""
    text = line.strip()
    if text.startswith("found "):
        return f"resolved {_count(lines, 'found ')}: {text.split()[1].partition('#')[2]}"
    if text.startswith("downloading "):
        name = text.split()[1].rpartition("/")[2]
        return f"downloading {_count(lines, 'downloading ')} of {_count(lines, 'found ')}: {name}"
    return None


def explain(log: str, wanted: Sequence[Artifact], kept: Path) -> DownloadError:
    """Turn the output of an Ivy run that failed into one error that names the log `kept`."""
    what = few(
        dict.fromkeys(
            re.sub("[#;]", ":", match.group(1).partition("!")[0])
            for pattern in (_UNRESOLVED, _FAILED)
            for match in pattern.finditer(log)
        )
    ) or few(wanted)
    error = DownloadError
    if network := _NETWORK.search(log):
        cause = f"the Maven repository did not answer ({network.group()})"
        fix = (
            "Check the network; behind a proxy set JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST"
            f" -Dhttps.proxyPort=PORT'; for a mirror let {SETTINGS_VARIABLE} name your"
            " ivysettings.xml"
        )
    elif "not found" in log:
        cause, fix = "the Maven repository has no such version", "Choose another version"
        error = NoSuchArtifactError
    else:
        cause, fix = "Ivy ended with an error or ran too long", "Read the log, then try again"
    return error(f"Could not download {what}", cause=cause, fix=f"{fix}. Full log: {kept}")


def ivy_jar() -> Path:
    """Return the Ivy of the first Spark that has one. Raises DownloadError."""
    homes = installation.spark_homes()
    for home in homes:
        for jar in sorted(home.glob("jars/ivy-*.jar")):
            return jar
    raise DownloadError(
        "Nothing can be downloaded without Spark, which brings the downloader (Ivy)",
        cause=f"no jars/ivy-*.jar in {', '.join(map(str, homes))}"
        if homes
        else "pyspark is not installed",
        fix=install("spark"),
    )


def _count(lines: Sequence[str], start: str) -> int:
    return sum(line.lstrip().startswith(start) for line in lines)


@contextlib.contextmanager
def _killed_after(seconds: float, process: subprocess.Popen[str]) -> Iterator[None]:
    timer = threading.Timer(seconds, process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    except BaseException:
        process.kill()  # an interrupted download must not leave its Java behind
        raise
    finally:
        timer.cancel()
        timer.join(timeout=5)
