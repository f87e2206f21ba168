"""What the guard watches, by a handle or by its number."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from tests.broker import watchdog


def test_a_process_that_is_gone_is_not_watched() -> None:
    """Its number may later be another's, which must not be killed for it."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait(timeout=30)
    watched: dict[int, int | None] = {}
    watchdog._watch(watched, gone.pid)
    assert watched == {}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has handles of processes")
def test_without_handles_the_number_has_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old kernel, or a sandbox, that has no pidfd takes away the handle, not the guard."""

    def refuse(pid: int) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    watched: dict[int, int | None] = {}
    watchdog._watch(watched, os.getpid())
    handle = watched[os.getpid()]
    assert handle is not None
    os.close(handle)
    monkeypatch.setattr(os, "pidfd_open", refuse)
    watchdog._watch(watched, os.getpid())
    assert watched == {os.getpid(): None}
