"""Archives of the classes of a program (class data sharing): its JVM starts in half the time."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eo_listener.spark import java
from tests.artifacts.store import cache_folder

_QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """An archive in the folder of downloads, whether it is there or not."""

    path: Path

    @classmethod
    def of(cls, folder: str, version: str, class_path: object) -> ClassArchive:
        """The one of a release with these classes, for the Java of this machine."""
        program = java.find().executable.resolve()
        known = f"{program} {program.stat().st_mtime_ns} {class_path}"
        digest = hashlib.sha256(known.encode()).hexdigest()[:12]
        return cls(cache_folder() / folder / f"{version}-{digest}.jsa")

    @property
    def options(self) -> tuple[str, ...]:
        """Those of a JVM that uses it; none while it is not there."""
        return (f"-XX:SharedArchiveFile={self.path}", *_QUIET) if self.path.exists() else ()

    @contextmanager
    def making(self) -> Iterator[tuple[str, ...]]:
        """Options of a JVM that writes it when it ends, which it must do within the block."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.path.parent) as folder:
            made = Path(folder, "made.jsa")
            yield (f"-XX:ArchiveClassesAtExit={made}", *_QUIET)
            made.replace(self.path)
