"""A sink is given to one batch at a time."""

from __future__ import annotations

import threading

import pytest

from eo_listener.foreach_batch.sinks_in_use import SinksInUse
from eo_listener.model.errors import SettingsError
from eo_listener.testing import MemorySink

_LONG = 60.0


def test_another_batch_waits_for_the_sink() -> None:
    """The batch of another thread that shares one of several sinks begins when this one is over."""
    in_use, one, two = SinksInUse(), MemorySink(key="one"), MemorySink(key="two")
    order: list[str] = []
    asked = threading.Event()

    def other() -> None:
        asked.set()
        with in_use.used([two, one], _LONG):
            order.append("second")

    thread = threading.Thread(target=other)
    with in_use.used([one], 0):
        thread.start()
        asked.wait(_LONG)
        with in_use.used([two], 0):
            order.append("first")
    thread.join(_LONG)
    assert order == ["first", "second"]


def test_a_sink_that_stays_in_use_is_refused() -> None:
    """It alone is named; others are not refused, nor is this one when its batch has failed."""
    in_use, one, two = SinksInUse(), MemorySink(key="one"), MemorySink(key="two")

    def fails() -> None:
        with in_use.used([one], 0):
            with (
                pytest.raises(SettingsError, match=r"the same sink: memory one\. Cause") as raised,
                in_use.used([two, one], 0),
            ):
                pytest.fail("both have it")
            assert "sinks of its own" in str(raised.value.fix)
            with in_use.used([two], 0):
                raise LookupError

    with pytest.raises(LookupError):
        fails()
    with in_use.used([one, two], 0):
        pass
