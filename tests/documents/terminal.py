"""What a program shows on a terminal, and a picture of it."""

from __future__ import annotations

import fcntl
import io
import os
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

# What rich writes before it draws a live picture once more: it goes back to the first line.
_NEXT_FRAME = re.compile(r"\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)+")
_OF_THE_WEB = re.compile(r"\s*@font-face \{.*?\}\n", re.DOTALL)


@dataclass(frozen=True)
class Shown:
    """What a program has written, and its exit status."""

    text: str
    status: int

    @property
    def frames(self) -> list[str]:
        """The pictures that it showed one after the other."""
        return [frame for frame in _NEXT_FRAME.split(self.text) if frame.strip()]


def shown(
    words: Sequence[str],
    *,
    columns: int,
    lines: int,
    folder: Path,
    environment: Mapping[str, str],
    watch: Callable[[str], object] = lambda text: None,
) -> Shown:
    """Run a program on a terminal; it gets a Ctrl-C when `watch` returns True for its output."""
    ours, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(
        words,
        cwd=folder,
        env={**os.environ, "TERM": "xterm-256color", **environment},
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
    )
    os.close(its)
    kept = bytearray()
    while new := _read(ours):
        kept += new
        if watch(new.decode(errors="replace")) is True:
            process.send_signal(signal.SIGINT)
    os.close(ours)
    return Shown(kept.decode(errors="replace"), process.wait())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # nobody has the other side open any more
        return b""


def as_svg(typed: str, output: str, *, columns: int, name: str) -> str:
    """A terminal with a command and what it printed; needs nothing of the web."""
    console = Console(
        record=True,
        width=columns,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    console.print(Text.assemble(("$ ", "dim"), (typed, "bold")), overflow="fold")
    console.print(Text.from_ansi(output.replace("\r\n", "\n").rstrip()))
    drawn = console.export_svg(title="eo-listener", unique_id=name)
    return _OF_THE_WEB.sub("", drawn)
