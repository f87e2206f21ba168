"""Which sinks a batch is being written by, in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from eo_listener.model.errors import SettingsError, few
from eo_listener.model.protocols import Sink


class SinksInUse:
    """Gives sinks to one batch at a time, which is what a `Sink` is made for. For any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._used: set[int] = set()  # by `id`: a user's sink need not be hashable

    @contextmanager
    def used(self, sinks: Sequence[Sink], timeout: float) -> Iterator[None]:
        """Have them for oneself, waiting up to `timeout` seconds for another batch's end.

        Raises SettingsError where that one still goes on.
        """
        ours = {id(sink) for sink in sinks}
        with self._changed:
            if not self._changed.wait_for(lambda: not ours & self._used, timeout):
                theirs = [sink.label for sink in sinks if id(sink) in self._used]
                raise SettingsError(
                    "two queries run at once with the same exactly_once(...), or with the same "
                    f"sink: {few(theirs)}",
                    cause="a sink writes one batch at a time: it has its connections, and what it "
                    "has read of its ledger, for that one",
                    fix="Call exactly_once(...) for each query, with sinks of its own",
                )
            self._used |= ours
        try:
            yield
        finally:
            with self._changed:
                self._used -= ours
                self._changed.notify_all()


OF_THIS_PROCESS: Final = SinksInUse()
