"""A wire that can be cut, as at a switch, between this machine and a network namespace."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

import pytest

_BRIDGE = "wire"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """`host` is this machine on it; `within` are the words before a command at the far end."""

    host: str
    within: tuple[str, ...]
    middle: str

    def cut(self) -> None:
        _ip("-n", self.middle, "link", "set", _BRIDGE, "down")

    def mend(self) -> None:
        _ip("-n", self.middle, "link", "set", _BRIDGE, "up")


class _End(NamedTuple):
    """`place` is a namespace, or a process in it; `there` are the words for ip to work in it."""

    link: str
    place: str
    there: tuple[str, ...]
    address: str


@contextmanager
def network() -> Iterator[Wire]:
    """Make one, and remove it afterwards. Skips the test where that is not allowed."""
    number = os.getpid()
    here, far, middle = f"eo{number}", f"eo-far-{number}", f"eo-middle-{number}"
    made: list[str] = []
    try:
        for name in (far, middle):
            try:
                _ip("netns", "add", name)
            except (OSError, subprocess.CalledProcessError) as error:
                pytest.skip(f"needs ip, and the right to make network namespaces ({error})")
            made.append(name)
        yield _connected(here, far, middle)
    finally:
        with suppress(subprocess.CalledProcessError):  # there is none
            _ip("link", "delete", here)  # else it goes a moment after its other end's namespace
        for name in made:
            _ip("netns", "delete", name)


def _connected(here: str, far: str, middle: str) -> Wire:
    number = os.getpid()
    net = f"198.18.{number >> 6 & 255}"  # addresses for tests of networks, by RFC 2544
    first = (number & 63) * 4
    near = _End(here, str(number), (), f"{net}.{first + 1}")
    away = _End("wire0", far, ("-n", far), f"{net}.{first + 2}")
    _ip("-n", middle, "link", "add", _BRIDGE, "type", "bridge", "stp_state", "0")
    for port, end in (("near", near), ("away", away)):
        _ip("-n", middle, "link", "add", port, "type", "veth", "peer", "name", end.link)
        _ip("-n", middle, "link", "set", port, "master", _BRIDGE, "up")
        _ip("-n", middle, "link", "set", end.link, "netns", end.place)
        _ip(*end.there, "address", "add", f"{end.address}/30", "dev", end.link)
        _ip(*end.there, "link", "set", end.link, "up")
    _ip("-n", far, "link", "set", "lo", "up")
    _ip("-n", middle, "link", "set", _BRIDGE, "up")
    # Who is where is fixed: else "no route to host" says after 3 s that nobody answers.
    for one, other in ((near, away), (away, near)):
        hardware = _ip(*other.there, "-brief", "link", "show", other.link).split()[2]
        _ip(*one.there, "neighbour", "replace", other.address, "lladdr", hardware, "dev", one.link)
    return Wire(host=near.address, within=("ip", "netns", "exec", far), middle=middle)


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout
