"""Observers: each gets every event, and none can do harm to another or to who notifies them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from eo_listener.events import Event, InternalError, Observers

FIRST = InternalError(where="here", problem="first")
SECOND = InternalError(where="here", problem="second")


def test_observers_are_called_in_their_order_on_the_thread_of_the_event() -> None:
    """Each has seen an event before `notify` returns; one that stands there twice gets it twice."""
    calls: list[tuple[str, Event, int]] = []

    def observer(name: str) -> Callable[[Event], None]:
        return lambda event: calls.append((name, event, threading.get_ident()))

    one, other = observer("one"), observer("other")
    Observers(one, one, other).notify(FIRST)
    here = threading.get_ident()
    assert calls == [("one", FIRST, here), ("one", FIRST, here), ("other", FIRST, here)]


@pytest.mark.parametrize("error", [RuntimeError("mine"), SystemExit(3)])
def test_an_observer_that_raises_is_logged_for_each_event(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """The observers after it get the event, and it gets the next one all the same."""
    seen: list[Event] = []

    def broken(event: Event) -> None:
        seen.append(event)
        raise error

    observers = Observers(broken, seen.append)
    for event in (FIRST, SECOND):
        observers.notify(event)
    assert seen == [FIRST, FIRST, SECOND, SECOND]
    assert ["InternalError" in text for text in caplog.messages] == [True] * 2
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert [record.exc_info and record.exc_info[1] for record in caplog.records] == [error] * 2


def test_an_interrupt_by_the_user_is_let_through() -> None:
    """Ctrl-C in an observer ends the program, as anywhere else."""
    with pytest.raises(KeyboardInterrupt):
        Observers(Mock(side_effect=KeyboardInterrupt)).notify(FIRST)
