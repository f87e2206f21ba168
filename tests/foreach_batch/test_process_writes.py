"""Sinks and ledgers that a process uses: one batch at a time, one writer for a ledger in a run."""

from __future__ import annotations

import threading

import pytest

from eo_listener.foreach_batch.process_writes import ProcessWrites
from eo_listener.model.errors import SettingsError
from eo_listener.model.ledger import LedgerKey
from eo_listener.testing import MemorySink

_LONG = 60.0


def test_another_batch_waits_for_the_sink() -> None:
    """The batch of another thread that shares one of several sinks begins when this one is over."""
    process, one, two = ProcessWrites(), MemorySink(key="one"), MemorySink(key="two")
    order: list[str] = []
    asked = threading.Event()

    def other() -> None:
        asked.set()
        with process.exclusive([two, one], _LONG):
            order.append("second")

    thread = threading.Thread(target=other)
    with process.exclusive([one], 0):
        thread.start()
        asked.wait(_LONG)
        with process.exclusive([two], 0):
            order.append("first")
    thread.join(_LONG)
    assert order == ["first", "second"]


def test_a_sink_that_stays_in_use_is_refused() -> None:
    """It alone is named; others are not refused, nor is this one when its batch has failed."""
    process, one, two = ProcessWrites(), MemorySink(key="one"), MemorySink(key="two")

    def fails() -> None:
        with process.exclusive([one], 0):
            with pytest.raises(SettingsError) as raised, process.exclusive([two, one], 0):
                pytest.fail("both have it")
            assert "memory one" in raised.value.problem
            assert "memory two" not in raised.value.problem
            with process.exclusive([two], 0):
                raise LookupError

    with pytest.raises(LookupError):
        fails()
    with process.exclusive([one, two], 0):
        pass


def test_the_newest_runs_are_remembered() -> None:
    """A process that starts queries forever does not grow."""
    process = ProcessWrites()
    keys = [LedgerKey("rows", str(number)) for number in range(3)]
    for key in keys[:2]:
        process.add_name("r", key)
    assert process.names("r") == frozenset(keys[:2])
    assert process.names("other") == frozenset()
    for number in range(1000):
        process.add_name(str(number), keys[2])
    assert process.names("r") == frozenset()
    assert process.names("0") == process.names("999") == frozenset(keys[2:])
    assert len(process._runs) == 1000
