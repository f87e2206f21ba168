"""Fetch Maven artifacts once, prove that they are the right ones, and keep them.

The work is done by the Ivy that ships inside pyspark, so neither Maven nor a container is
needed. A folder that `fetch` has filled is complete: it appears by one rename, and its
`SHA256SUMS` (the format of sha256sum) names every file in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

import platformdirs

from eo_listener import java
from eo_listener.errors import DownloadError

MANIFEST: Final = "SHA256SUMS"
LONGEST_RUN: Final = 1800.0  # seconds; a slow line needs minutes for a broker's 60 MB
CACHE_VARIABLE: Final = "EO_LISTENER_CACHE"
SETTINGS_VARIABLE: Final = "EO_LISTENER_IVY_SETTINGS"
INSTALL: Final = "pip install 'eo-listener[spark]'"

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


class _MismatchError(Exception):
    """What a folder holds is not what it should hold."""


def cache_folder() -> Path:
    """Return the folder for everything that is downloaded: `$EO_LISTENER_CACHE` or the user's."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named).absolute() if named else platformdirs.user_cache_path("eo-listener")


def fetch(
    wanted: Sequence[Artifact],
    folder: Path,
    *,
    checksums: Mapping[str, str] | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> tuple[Path, ...]:
    """Return the files of `wanted`, downloading them into `folder` only when they are not there.

    `checksums` maps every file name to its SHA-256; the files must then be exactly these.
    Without it Ivy's own check and the manifest written at download hold. A folder that is
    damaged is said to be so and fetched anew. Processes that want the same folder take turns.

    Raises DownloadError, and JavaError when something must be downloaded and there is no Java.
    """
    with contextlib.suppress(FileNotFoundError):
        if (files := _usable(wanted, folder, checksums, lambda _: None)) is not None:
            return files
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _turn(_beside(folder, "lock"), on_progress):
        files = _usable(wanted, folder, checksums, on_progress)
        if files is None:
            _download(wanted, folder, checksums, on_progress)
            files = verify(folder, checksums)
        return files


def verify(folder: Path, checksums: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Return the files of a filled folder after hashing each of them (about 0.1 s for a broker).

    Raises DownloadError when a file is missing, changed or not of this folder.
    """
    try:
        expected = checksums or _parse_manifest((folder / MANIFEST).read_text())
        _compare(expected, _hashes(folder))
    except (_MismatchError, FileNotFoundError) as error:
        raise DownloadError(
            f"{folder} is not complete", cause=str(error), fix=f"rm -r {folder}, then try again"
        ) from error
    return tuple(folder / name for name in sorted(expected))


def _usable(
    wanted: Sequence[Artifact],
    folder: Path,
    checksums: Mapping[str, str] | None,
    say: Callable[[str], None],
) -> tuple[Path, ...] | None:
    if not (folder / MANIFEST).exists():
        return None
    try:
        files = verify(folder, checksums)
    except DownloadError as error:
        say(f"{error.problem} ({error.cause}): fetching it again")
        return None
    missing = {artifact.filename for artifact in wanted} - {file.name for file in files}
    return None if missing else files


def _download(
    wanted: Sequence[Artifact],
    folder: Path,
    checksums: Mapping[str, str] | None,
    say: Callable[[str], None],
) -> None:
    work, cache = _beside(folder, "new"), _beside(folder, "ivy")
    resumed = cache.exists()  # a run that was cut short left what it had
    _run_ivy(wanted, work, cache, folder, say)
    try:
        found = _hashes(work)
        _compare(checksums or {artifact.filename: None for artifact in wanted}, found)
    except _MismatchError as error:
        shutil.rmtree(cache, ignore_errors=True)
        if resumed:
            say(f"what an earlier download left is damaged ({error}): starting afresh")
            return _download(wanted, folder, checksums, say)
        raise DownloadError(
            f"What was downloaded for {wanted[0]} is not what was expected",
            cause=f"{error}; a mirror or proxy may serve other files",
            fix=f"Look into {work}, then try again",
        ) from error
    (work / MANIFEST).write_text(_render_manifest(found))
    old = _beside(folder, "old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    work.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    shutil.rmtree(cache, ignore_errors=True)  # else everything would be kept twice
    return None


def _run_ivy(
    wanted: Sequence[Artifact], work: Path, cache: Path, folder: Path, say: Callable[[str], None]
) -> None:
    runtime, ivy = java.find(oldest=8), _ivy_jar()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    cache.mkdir(exist_ok=True)
    (cache / "ivy.xml").write_text(render_ivy(wanted))
    settings = os.environ.get(SETTINGS_VARIABLE)
    if not settings:
        (cache / "ivysettings.xml").write_text(_SETTINGS)
    command = [str(runtime.executable), f"-Divy.default.ivy.user.dir={cache}", "-jar", str(ivy)]
    command += ["-settings", settings or str(cache / "ivysettings.xml")]
    command += ["-cache", str(cache), "-ivy", str(cache / "ivy.xml"), "-confs", "default"]
    command += ["-retrieve", str(work / _PATTERN)]
    log = folder.with_name(f"{folder.name}.log")
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
        assert process.stdout is not None  # noqa: S101 - for the type checker: it is a PIPE
        for line in process.stdout:
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
    what = ", ".join(
        dict.fromkeys(
            re.sub("[#;]", ":", match.group(1).partition("!")[0])
            for pattern in (_UNRESOLVED, _FAILED)
            for match in pattern.finditer(log)
        )
    ) or ", ".join(map(str, wanted))
    if network := _NETWORK.search(log):
        cause = f"the Maven repository did not answer ({network.group()})"
        fix = (
            "Check the network; behind a proxy set JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST"
            f" -Dhttps.proxyPort=PORT'; for a mirror let {SETTINGS_VARIABLE} name your"
            " ivysettings.xml"
        )
    elif "not found" in log:
        cause, fix = "the Maven repository has no such version", "Choose another version"
    else:
        cause, fix = "Ivy ended with an error or ran too long", "Read the log, then try again"
    return DownloadError(f"Could not download {what}", cause=cause, fix=f"{fix}. Full log: {kept}")


def _ivy_jar() -> Path:
    homes = []
    spec = importlib.util.find_spec("pyspark")  # finds it without running any of its code
    if spec is not None:
        homes += [Path(place) for place in spec.submodule_search_locations or ()]
    if spark_home := os.environ.get("SPARK_HOME"):
        homes.append(Path(spark_home))
    for home in homes:
        for jar in sorted(home.glob("jars/ivy-*.jar")):
            return jar
    raise DownloadError(
        "Nothing can be downloaded without pyspark, which brings the downloader (Ivy)",
        cause="pyspark is not installed" if spec is None else "it has no jars/ivy-*.jar",
        fix=INSTALL,
    )


def _count(lines: Sequence[str], start: str) -> int:
    return sum(line.lstrip().startswith(start) for line in lines)


def _hashes(folder: Path) -> dict[str, str]:
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.iterdir())
        if file.name != MANIFEST
    }


def _compare(expected: Mapping[str, str | None], found: Mapping[str, str]) -> None:
    """Raise unless all files are there; with hashes they must be these and no other."""
    if missing := sorted(expected.keys() - found.keys()):
        raise _MismatchError(f"missing: {', '.join(missing)}")
    hashed = {name: value for name, value in expected.items() if value is not None}
    if changed := sorted(name for name in hashed if hashed[name] != found[name]):
        raise _MismatchError(f"wrong SHA-256: {', '.join(changed)}")
    if hashed and (extra := sorted(found.keys() - expected.keys())):
        raise _MismatchError(f"not expected: {', '.join(extra)}")


def _render_manifest(hashes: Mapping[str, str]) -> str:
    return "".join(f"{value}  {name}\n" for name, value in sorted(hashes.items()))


def _parse_manifest(text: str) -> dict[str, str]:
    pairs = (line.split("  ", 1) for line in text.splitlines() if line)
    try:
        return {name: value for value, name in pairs}
    except ValueError as error:
        raise _MismatchError(f"{MANIFEST} is damaged") from error


def _beside(folder: Path, kind: str) -> Path:
    return folder.with_name(f".{folder.name}.{kind}")


@contextlib.contextmanager
def _turn(lock: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock that the system lets go of when the process dies; wait for it, not for ever."""
    with lock.open("w") as handle:
        deadline, told = time.monotonic() + LONGEST_RUN, False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise DownloadError(
                        f"Another process has held {lock} for {LONGEST_RUN:.0f} s",
                        cause="its download may hang",
                        fix=f"End that process (fuser {lock} names it), then try again",
                    ) from None
            if not told:
                say("another process is fetching the same files: waiting for it")
                told = True
            time.sleep(0.2)
        yield


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
