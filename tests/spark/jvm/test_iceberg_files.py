"""Behind which changes of files others can be made again. Without a JVM."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from eo_listener.spark.jvm.iceberg_table import ChangedFiles, holds


@dataclass(frozen=True)
class File:
    """One of Java's; a file of deletes says of which file it deletes rows, or not."""

    path: str
    of: str | None = None

    def location(self) -> str:
        return self.path


UTIL = SimpleNamespace(referencedDataFileLocation=lambda file: file.of)


def changed(
    added: str = "", removed: str = "", deletes: str = "", gone: str = "", of: str | None = "a"
) -> ChangedFiles:
    """Files with names of one letter."""
    return ChangedFiles(
        tuple(map(File, added)),
        tuple(map(File, removed)),
        tuple(File(one, of) for one in deletes),
        tuple(map(File, gone)),
    )


OVERWRITE = changed(added="n", removed="a")
DELTA = changed(added="n", deletes="d")
APPEND = changed(added="n")
OF_VECTOR = changed(added="n", removed="a", gone="v")  # a file is rewritten, with its deletes


@pytest.mark.parametrize(
    ("mine", "moves", "answer"),
    [
        (OVERWRITE, [changed("y", "x"), changed()], True),
        (OVERWRITE, [changed("y", "x"), changed("y", "ab")], False),
        (DELTA, [changed("y", "xd")], True),
        (DELTA, [changed("y", "a")], False),
        (changed(deletes="d", gone="o"), [changed("y", gone="o")], False),
        (changed(deletes="d", of=None), [changed("y", "x")], False),
        (changed(deletes="d", of=None), [changed()], True),
        (DELTA, [changed("y", "x", deletes="e", of="z")], False),
        (OVERWRITE, [changed(gone="e")], True),
        (APPEND, [changed("y", "a", deletes="e"), changed(gone="o")], True),
        (OF_VECTOR, [changed("y", "x"), changed("y")], True),
        (OF_VECTOR, [changed("y", "a")], False),
        (OF_VECTOR, [changed(gone="v")], False),
        (OF_VECTOR, [changed(deletes="e")], False),
        (changed(), [changed("y", "a")], True),
    ],
)
def test_what_it_is_about_must_still_be_there(
    mine: ChangedFiles, moves: list[ChangedFiles], answer: bool
) -> None:
    """The files that it has changed, and how rows of them are deleted; where that is known."""
    assert holds(mine, moves, UTIL) is answer


class Recorded:
    """A table of Java's, and each operation on it: it writes down what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def ask(*files: File | int) -> Recorded:
            told = (one.path if isinstance(one, File) else str(one) for one in files)
            self.asked.append(" ".join([name, *told]))
            return self

        return ask


@pytest.mark.parametrize(
    ("mine", "asked"),
    [
        (APPEND, ["newFastAppend", "appendFile n"]),
        (OVERWRITE, ["newOverwrite", "deleteFile a", "addFile n"]),
        (
            changed("n", "a", deletes="d", gone="o"),
            [
                "newRowDelta",
                "validateFromSnapshot 7",
                "removeRows a",
                "addRows n",
                "addDeletes d",
                "removeDeletes o",
            ],
        ),
    ],
)
def test_each_kind_has_an_operation_of_icebergs(mine: ChangedFiles, asked: list[str]) -> None:
    """All of its files are in it."""
    table = Recorded()
    mine.repeated(table, 7)
    assert table.asked == asked
