"""A Prometheus of the tests' own: Debian's package, unpacked into the cache folder.

EO_TEST_PROMETHEUS names a folder with `prometheus` and `promtool`; without it those on the PATH
are used. Where there are none apt fetches the package, by lists and keys of the system and into a
folder of our own: any user may do that, and nothing is installed. Without apt tests are skipped.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from filelock import FileLock

from tests import watchdog
from tests.artifacts import cache_folder
from tests.broker import free_port
from tests.processes import finished
from tests.waiting import until

_READY = 60.0  # seconds, on a busy machine
_FETCH = 600.0  # seconds for lists of 10 MB and a package of 19 MB
_NAMES = ("prometheus", "promtool")


@functools.cache
def programs() -> Path:
    """The folder of both programs. Skips the test where there are none and none can be fetched."""
    named = os.environ.get("EO_TEST_PROMETHEUS")
    if named:
        assert _has_both(Path(named)), f"EO_TEST_PROMETHEUS={named} has no {' and '.join(_NAMES)}"
        return Path(named)
    found = [shutil.which(name) for name in _NAMES]
    if all(found):
        return Path(str(found[0])).parent
    kept = cache_folder() / "tests" / "prometheus"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(kept.with_name(".prometheus.lock")):
        if not _has_both(kept / "usr" / "bin"):
            _fetch(kept)
    return kept / "usr" / "bin"


def _has_both(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _NAMES)


def _fetch(kept: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("there is no apt to fetch Prometheus: EO_TEST_PROMETHEUS may name its folder")
    work = kept.with_name(".prometheus.new")
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("state/lists/partial", "cache/archives/partial", "files"):
        (work / folder).mkdir(parents=True)
    own = [
        *("-o", f"Dir::State={work}/state", "-o", f"Dir::Cache={work}/cache"),
        *("-o", "Dir::State::status=/var/lib/dpkg/status"),
        *("-o", "APT::Sandbox::User=root"),  # as root: the user _apt cannot enter the folder
    ]
    try:
        _apt([*own, "update"], work)
        _apt([*own, "download", "prometheus"], work)
        (package,) = work.glob("prometheus_*.deb")
        subprocess.run(["dpkg-deb", "-x", package, work / "files"], check=True, timeout=_FETCH)
        assert _has_both(work / "files" / "usr" / "bin")
        shutil.rmtree(kept, ignore_errors=True)
        (work / "files").rename(kept)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _apt(arguments: list[str], folder: Path) -> None:
    command = ["apt-get", "--quiet", "--quiet", *arguments]
    answer = finished(command, cwd=folder, timeout=_FETCH)
    if answer.returncode:
        pytest.skip(f"apt cannot fetch the package prometheus: {answer.stderr.strip()[-500:]}")


class PrometheusServer:
    """One server on 127.0.0.1, all in `folder`; a sample counts for as long as `lookback`."""

    def __init__(self, folder: Path, config: str, *, lookback: str = "5m") -> None:
        self.port = free_port()
        self._log = folder / "prometheus.log"
        (folder / "prometheus.yml").write_text(config)
        self._command = [
            str(programs() / "prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            f"--query.lookback-delta={lookback}",
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        watchdog.watch(self._process.pid)
        until(self._is_ready, _READY, self._log.read_text)

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()[-3000:]
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5).close()
            return True
        return False

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()  # its data are gone with the test
            self._process.wait()

    def ask(self, path: str, **parameters: str) -> Any:
        address = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expr: str) -> list[dict[str, Any]]:
        """What an expression gives now: `metric` and `value` of each series."""
        found: list[dict[str, Any]] = self.ask("query", query=expr)["result"]
        return found

    def firing(self) -> list[dict[str, Any]]:
        """The alerts that fire now: `labels` and `annotations` of each."""
        return [one for one in self.ask("alerts")["alerts"] if one["state"] == "firing"]


@contextlib.contextmanager
def prometheus(folder: Path, config: str, *, lookback: str = "5m") -> Iterator[PrometheusServer]:
    server = PrometheusServer(folder, config, lookback=lookback)
    try:
        server.start()
        yield server
    finally:
        server.close()
