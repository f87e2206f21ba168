"""Under which names each run of a query writes in this process."""

from __future__ import annotations

import threading
from typing import Final

from eo_listener.model.ledger import LedgerKey

_KEPT: Final = 1000  # runs; one that is older than so many others has had its first batch


class LedgerNames:
    """The ledger's names that each run has used, of the newest runs. For any thread.

    One function may call several `exactly_once(...)`, with a name or a table each: what the ledger
    has under one of these is not a former name of another.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, set[LedgerKey]] = {}
        self._replays: dict[str, tuple[int, dict[tuple[str, LedgerKey], object]]] = {}

    def add(self, run_id: str, key: LedgerKey) -> None:
        """Note that a run uses a name."""
        with self._lock:
            self._names.setdefault(run_id, set()).add(key)
            while len(self._names) > _KEPT:
                del self._names[next(iter(self._names))]

    def replays(
        self, run_id: str, batch_id: int, sink: str, key: LedgerKey, runner: object
    ) -> bool:
        """Note that a runner finds a batch applied by an earlier run; False if another one has."""
        with self._lock:
            number, found = self._replays.get(run_id, (batch_id, {}))
            self._replays[run_id] = batch_id, found if number == batch_id else {}
            while len(self._replays) > _KEPT:
                del self._replays[next(iter(self._replays))]
            return self._replays[run_id][1].setdefault((sink, key), runner) is runner

    def of(self, run_id: str) -> frozenset[LedgerKey]:
        """The names that a run uses."""
        with self._lock:
            return frozenset(self._names.get(run_id, ()))


OF_THIS_PROCESS: Final = LedgerNames()
