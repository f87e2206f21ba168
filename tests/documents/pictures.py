"""The pictures of README: `python -m tests.documents.pictures`, or `make pictures`.

Nothing is made up: a real demo runs into SQLite, and its table is then put back to a copy, as if a
backup were restored. A browser looks at the page, as wide as a phone; without one it stays.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from examples.demo.store import GROUP, TOPIC
from tests.browser import chromium
from tests.browser import program as browser
from tests.documents.markdown import DOCS, ROOT
from tests.documents.terminal import Shown, as_svg, shown
from tests.processes import Program

PICTURES: Final = DOCS / "pictures"
_COLUMNS, _LINES = 104, 34
_MORE: Final = 40_000  # flights that the query has not read
_PHONE: Final = 390  # pixels of CSS
_LONGEST: Final = 1_240  # of them; more is cut off at the bottom
_SCALE: Final = 1.08  # pixels of the picture for one of CSS
_LATEST: Final = 180.0  # seconds; a group counts as stopped after ten readings
_STOPPED: Final = "/STOP group[^]*not applied/.test(document.body.innerText)"
_HALF: Final = 170_000  # of the flights; then the table is copied
_LIVE: Final = re.compile(r"committed\b.*?([\d,]+)\s+by group")


class _Backup:
    """Copies the demo's table once half of the flights are in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.file = folder / "backup.sqlite"

    def __call__(self, text: str) -> None:
        done = [int(found.replace(",", "")) for found in _LIVE.findall(_plain(text))]
        if not self.file.exists() and done and max(done) > _HALF:
            with (
                contextlib.closing(sqlite3.connect(self.table())) as table,
                contextlib.closing(sqlite3.connect(self.file)) as copy,
            ):
                table.backup(copy)

    def table(self) -> Path:
        """The file that the demo writes."""
        (found,) = self._folder.glob("eo-demo-*/flights.sqlite")
        return found

    def put_back(self) -> None:
        """What a restore from a backup does."""
        for leftover in self.table().parent.glob("flights.sqlite-*"):
            leftover.unlink()
        shutil.copy(self.file, self.table())


def main() -> None:
    """Make all of them again."""
    program = Path(sys.executable).with_name("eo-listener")
    typed = "python -m examples.demo --sink sqlite --keep"
    with tempfile.TemporaryDirectory(prefix="eo-pictures-") as name:
        folder = Path(name)
        backup = _Backup(folder)
        written: list[str] = []

        def run(typed: str, place: Path, watch: Callable[[str], object]) -> Shown:
            words = [str(program.with_name(typed.split(maxsplit=1)[0])), *typed.split()[1:]]
            return shown(
                words,
                columns=_COLUMNS,
                lines=_LINES,
                folder=place,
                environment={"TMPDIR": name},
                watch=watch,
            )

        def watch(text: str) -> bool:
            """Copy the table; when the demo is over, and only its broker runs, do all the rest."""
            backup(text)
            written.append(text)
            kept = re.search(rf"until Ctrl-C: .* {GROUP} -b (\S+)", _plain("".join(written[-9:])))
            if kept is None:
                return False
            written.clear()
            servers, place = kept[1], backup.table().parent
            _send_more(servers)
            backup.put_back()
            for picture, command in _typed(servers, place):
                _save(picture, command, run(command, place, lambda _: False).text)
            _page(program, servers, place)
            return True

        demo = run(typed, ROOT, watch)
        if demo.status:
            sys.exit(demo.text)
        _save("demo", typed, _best(demo.frames))


def _typed(servers: str, place: Path) -> Iterator[tuple[str, str]]:
    yield "status", f"eo-listener status {GROUP} -b {servers}"
    yield "audit", f"eo-listener audit -b {servers} -g {GROUP} {_compared(place)}"


def _compared(place: Path) -> str:
    """The options for what an audit compares with the group."""
    (checkpoint,) = (path.parent.name for path in place.glob("*/commits"))
    return f"--checkpoint {checkpoint} --ledger sqlite:flights.sqlite"


def _page(program: Path, servers: str, place: Path) -> None:
    """What `serve` shows when the query has stopped, and records go on coming."""
    path = browser()
    if path is None:
        sys.stderr.write(
            "page.png stays as it was: there is no browser. "
            "Fix: install Chromium, or name it by EO_TEST_CHROMIUM\n"
        )
        return
    typed = f"serve {GROUP} -b {servers} {_compared(place)} --port 0 --every 1 --audit-every 5"
    with (
        Program([program, *typed.split()], cwd=place) as process,
        chromium(path) as phone,
    ):
        url = process.await_line("serving ").split()[1]
        page = phone.open(url, width=_PHONE, scale=_SCALE)
        deadline = time.monotonic() + _LATEST
        while not page.value(_STOPPED):
            assert time.monotonic() < deadline
            _send_more(servers, _MORE // 20)
            time.sleep(1.0)
        picture = page.picture(longest=_LONGEST)
    (PICTURES / "page.png").write_bytes(picture)


def _best(frames: list[str]) -> str:
    """From the middle of the replay, when both readings of the group are there."""
    live = [frame for frame in frames if "replaying the flights" in frame and "s ago" in frame]
    return live[len(live) * 2 // 3]


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def _send_more(servers: str, count: int = _MORE) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50})
    for number in range(count):
        producer.produce(TOPIC, value=b"{}", partition=number % 4)
        producer.poll(0)
    assert producer.flush(60) == 0


def _save(name: str, typed: str, output: str) -> None:
    PICTURES.mkdir(exist_ok=True)
    picture = as_svg(typed, output, columns=_COLUMNS, name=name)
    (PICTURES / f"{name}.svg").write_text(picture)


if __name__ == "__main__":
    main()
