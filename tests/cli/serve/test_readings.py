"""What is current, and what is no longer."""

from __future__ import annotations

import threading
import time

from eo_listener.cli.serve.error_log import ErrorLog
from eo_listener.cli.serve.readings import Moment, Newest, Reading, Unknown


def test_a_reading_is_current_until_one_fails_or_it_is_old() -> None:
    """Then nothing is known, since it was read; and the next one counts again."""
    newest: Newest[int] = Newest(keeps=30.0)
    assert newest.at(Moment(0, 0)) == Unknown(None, "it was not read yet")
    newest.failed("no broker")
    assert newest.at(Moment(0, 0)) == Unknown(None, "no broker")
    first = Moment(100, 10)
    newest.took(1, first)
    known = newest.at(Moment(130, 40))
    assert isinstance(known, Reading)
    assert (known.value, known.at) == (1, first)
    assert newest.at(Moment(131, 41)) == Unknown(first, "no answer for 31 s")
    for _ in range(2):
        newest.failed("away")
        assert newest.at(Moment(102, 12)) == Unknown(first, "away")
    newest.took(2, Moment(150, 60))
    assert isinstance(newest.at(Moment(151, 61)), Reading)


def test_what_is_made_of_a_reading_is_made_once() -> None:
    """However many ask for it at the same moment."""
    made: list[int] = []

    def make(value: int) -> bytes:
        time.sleep(0.05)
        made.append(value)
        return str(value).encode()

    reading = Reading(7, Moment(0, 0))
    asking = [threading.Thread(target=reading.once, args=("text", make)) for _ in range(8)]
    for one in asking:
        one.start()
    for one in asking:
        one.join()
    assert reading.once("text", make) == b"7"
    assert made == [7]


def test_errors_are_counted_and_bounded() -> None:
    """The same one again is one entry, the newest first; a long text is cut."""
    log = ErrorLog()
    for at in range(3):
        log.add("groups", "no broker", float(at))
        log.add("group g", "NOT_COORDINATOR", float(at))
    newest = log.newest()
    assert [(one.about, one.times, one.first, one.last) for one in newest] == [
        ("group g", 3, 0.0, 2.0),
        ("groups", 3, 0.0, 2.0),
    ]
    for number in range(1000):
        log.add("groups", f"{number} " + "x" * 100_000, 10.0)
    assert sum(len(one.text) for one in log.newest()) <= 30 * 2000
    assert log.newest()[0].text.startswith("999 ")
