"""The thread that reads."""

from __future__ import annotations

import threading
import time

import pytest

from eo_listener.cli.serve import poller
from eo_listener.cli.serve.poller import Poller
from tests.threads import none_left


def wait_for(condition: object) -> None:
    """Until a function says yes."""
    deadline = time.monotonic() + 20
    while not condition():  # type: ignore[operator]  # a function without arguments
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_reads_at_an_interval_and_survives_a_fault(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of ours is a state of the page, with its traceback in the log, and not the end."""
    monkeypatch.setattr(poller, "_PAUSE", 0.01)
    read = threading.Semaphore(0)
    failed: list[str] = []

    def fault() -> None:
        read.release()
        raise ValueError("secret")

    with none_left():
        one = Poller("groups", fault, failed.append, every=0.01)
        one.start()
        for _ in range(3):
            assert read.acquire(timeout=20)
        assert one.problem is None
        assert one.stop(20.0, lambda: None)
    assert set(failed) == {"a fault in eo-listener: ValueError"}
    assert "in reading the groups" in caplog.text
    assert one.problem is None


def test_a_reading_that_hangs_is_interrupted_at_the_end() -> None:
    """And is a problem before that, once it has taken too long."""
    begun, free = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        free.wait(30)

    with none_left():
        one = Poller("groups", hang, lambda _: None, every=60.0, stuck=0.05)
        one.start()
        assert begun.wait(20)
        wait_for(lambda: "has not ended" in (one.problem or ""))
        assert one.stop(20.0, free.set)


def test_it_does_not_wait_longer_than_it_was_given() -> None:
    """What cannot be interrupted ends with the process."""
    free, begun = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        free.wait(30)

    one = Poller("audit", hang, lambda _: None, every=60.0)
    one.start()
    assert begun.wait(20)
    before = time.monotonic()
    assert not one.stop(0.3, lambda: None)
    assert time.monotonic() - before < 5
    free.set()


def test_a_thread_that_has_ended_is_a_problem() -> None:
    """`/healthz` says so: whatever ended it, nothing is read any more."""
    one = Poller("groups", lambda: None, lambda _: None, every=1.0)
    assert one.problem == "the thread that reads the groups has ended"
