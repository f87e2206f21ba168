"""Put a checkpoint on a local disk into the state that a crash leaves, or a disk fault.

Hadoop's `.crc` files go with their files: Spark refuses a file that does not match its own.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from tests.spark.checkpoint import writers


def batches(checkpoint: Path, folder: str) -> list[int]:
    """The numbers of the batches in `offsets` or `commits`, in order."""
    names = (path.name for path in (checkpoint / folder).glob("[0-9]*"))
    return sorted(int(name) for name in names if name.isdigit())


def before_commit(checkpoint: Path) -> int:
    """The sink has the newest batch, its commit was not written: deletes `commits/N`, gives N."""
    newest = batches(checkpoint, "commits")[-1]
    remove(checkpoint / "commits" / str(newest))
    return newest


def before_offsets(checkpoint: Path) -> int:
    """The newest batch was never planned: deletes `commits/N` and `offsets/N`, gives N."""
    newest = batches(checkpoint, "offsets")[-1]
    remove(checkpoint / "commits" / str(newest))
    remove(checkpoint / "offsets" / str(newest))
    return newest


def leave_temporary(checkpoint: Path, folder: str = "commits", *, whole: bool = False) -> Path:
    """A crash before the rename: the next batch's file, or half of it, under its temporary name."""
    newest = batches(checkpoint, folder)[-1]
    content = (checkpoint / folder / str(newest)).read_bytes()
    left = checkpoint / folder / f".{newest + 1}.{uuid.uuid4()}.tmp"
    left.write_bytes(content if whole else content[: len(content) // 2])
    return left


def tear(file: Path, keep: int | None = None, *, checksummed: bool = False) -> None:
    """Cut a file off after `keep` bytes (default: half); `checksummed`: the checksum fits."""
    content = file.read_bytes()
    replace(file, content[: len(content) // 2 if keep is None else keep], checksummed=checksummed)


def empty(file: Path, *, checksummed: bool = False) -> None:
    """Leave nothing of a file but its name, as ext4 does after a power cut."""
    replace(file, b"", checksummed=checksummed)


def replace(file: Path, content: bytes, *, checksummed: bool = True) -> None:
    """Give a file another content, and by default the checksum that fits it."""
    file.write_bytes(content)
    if checksummed:
        (file.parent / f".{file.name}.crc").write_bytes(writers.checksum(content))


def remove(file: Path) -> None:
    """Delete a file and its checksum, if they are there."""
    file.unlink(missing_ok=True)
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)


def copy(checkpoint: Path, to: Path) -> Path:
    """Copy a whole checkpoint, as a backup does; gives the copy."""
    return Path(shutil.copytree(checkpoint, to))


def rewind_to(checkpoint: Path, batch: int) -> None:
    """Make `batch` the last one that is done; Spark writes over the state of those after it."""
    for folder in ("offsets", "commits"):
        for number in batches(checkpoint, folder):
            if number > batch:
                remove(checkpoint / folder / str(number))
