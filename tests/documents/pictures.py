"""The pictures of README: `python -m tests.documents.pictures`, or `make pictures`.

A real demo is run into SQLite, and copies its table in mid-course. When it is over, more flights
are sent, and the table is put back to that copy: a store that was restored from a backup. So
nothing in a picture is made up.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from eo_listener.devtools.demo.demo_settings import GROUP, TOPIC
from tests.documents.markdown import DOCS
from tests.documents.terminal import Shown, as_svg, shown

PICTURES: Final = DOCS / "pictures"
_COLUMNS, _LINES = 104, 34
_MORE: Final = 40_000  # flights that the query has not read
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
    """Make all of them anew."""
    program = Path(sys.executable).with_name("eo-listener")
    with tempfile.TemporaryDirectory(prefix="eo-pictures-") as name:
        folder = Path(name)
        backup = _Backup(folder)

        def run(typed: str, place: Path) -> Shown:
            words = [str(program), *typed.split()[1:]]
            return shown(
                words,
                columns=_COLUMNS,
                lines=_LINES,
                folder=place,
                environment={"TMPDIR": name},
                watch=backup,
            )

        typed = "eo-listener demo --sink sqlite --keep"
        demo = run(typed, folder)
        if demo.status:
            sys.exit(demo.text)
        servers, data = _kept(demo.text)
        place = backup.table().parent
        try:
            _save("demo", typed, _best(demo.frames))
            _send_more(servers)
            backup.put_back()
            for picture, typed in _typed(servers, place):
                _save(picture, typed, run(typed, place).text)
        finally:
            run(f"eo-listener broker stop --data {data}", folder)


def _typed(servers: str, place: Path) -> Iterator[tuple[str, str]]:
    (checkpoint,) = (path.parent.name for path in place.glob("*/commits"))
    yield "status", f"eo-listener status {GROUP} -b {servers}"
    ledger = "sqlite:flights.sqlite"
    yield (
        "audit",
        f"eo-listener audit --checkpoint {checkpoint} -b {servers} -g {GROUP} --ledger {ledger}",
    )


def _kept(text: str) -> tuple[str, str]:
    """Where the broker is, and its data, as the demo says at its end."""
    plain = _plain(text)
    looked = re.search(rf"status {GROUP} -b (\S+)", plain)
    stopped = re.search(r"broker stop --data (\S+)", plain)
    assert looked
    assert stopped
    return looked[1], stopped[1]


def _best(frames: list[str]) -> str:
    """From the middle of the replay, when both readings of the group are there."""
    live = [frame for frame in frames if "replaying the flights" in frame and "s ago" in frame]
    return live[len(live) * 2 // 3]


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def _send_more(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50})
    for number in range(_MORE):
        producer.produce(TOPIC, value=b"{}", partition=number % 4)
        producer.poll(0)
    assert producer.flush(60) == 0


def _save(name: str, typed: str, output: str) -> None:
    PICTURES.mkdir(exist_ok=True)
    picture = as_svg(typed, output, columns=_COLUMNS, name=name)
    (PICTURES / f"{name}.svg").write_text(picture)


if __name__ == "__main__":
    main()
