"""What the bridge does with the lines of the JVM."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from eo_listener.bridge import messages
from eo_listener.bridge.jvm_client import BridgeQueries, BridgeShimClient, JvmClient
from eo_listener.bridge.messages import Forget, Greeting, Hello, Pong
from eo_listener.commit.groups.group_offsets import Groups, Waiting
from eo_listener.listener.commit_service import CommitService
from eo_listener.listener.settings import Settings
from eo_listener.model.errors import EoListenerError, JvmError
from eo_listener.model.events import Event, RunGroupsChanged
from eo_listener.model.fault_points import reached
from eo_listener.version import __version__

SHORTEST: Final = 0.2  # seconds between two looks at what waits
LONGEST: Final = 5.0


class Settler:
    """Says it of each ended run when what it has reached is committed, or refused.

    By Kafka or by ourselves: that may last forever. A bridge that dies before a run is settled
    leaves its successor all it needs to commit it. An observer, for the groups of each run.

    Kafka is not asked here, only what the committer knows: how often it tries is its own affair.
    """

    def __init__(self, settled: Callable[[str], None]) -> None:
        self._settled = settled
        self._groups: dict[str, frozenset[tuple[str, str]]] = {}
        self._left: dict[str, frozenset[Waiting]] = {}
        self._added: list[str] = []
        self._changed = threading.Condition()

    def __call__(self, event: Event) -> None:
        """Take in which groups a run feeds; returns at once."""
        if isinstance(event, RunGroupsChanged) and not event.ended:
            with self._changed:
                self._groups[event.run_id] = event.groups

    def add(self, run_id: str) -> None:
        """A run has ended, and all it has reached was offered. Returns at once."""
        with self._changed:
            self._added.append(run_id)
            self._changed.notify()

    def start(self, waiting: Callable[[Groups], frozenset[Waiting]]) -> None:
        """Begin, on a thread of its own; `waiting` says what waits for Kafka in some groups."""
        threading.Thread(
            target=self._work, args=(waiting,), name="eo-listener-settler", daemon=True
        ).start()

    def _work(self, waiting: Callable[[Groups], frozenset[Waiting]]) -> None:
        pause = SHORTEST
        while True:
            with self._changed:
                if not self._added:
                    self._changed.wait(pause if self._left else None)
                pause = SHORTEST if self._added else min(LONGEST, pause * 2)
            self.look(waiting)

    def look(self, waiting: Callable[[Groups], frozenset[Waiting]]) -> None:
        """Say it of the runs of which nothing waits any more. For one thread."""
        with self._changed:
            added, self._added = self._added, []
            # One that is told twice still waits for what it waited for.
            added = [run_id for run_id in added if run_id not in self._left]
            new = {run_id: self._groups.pop(run_id, frozenset()) for run_id in added}
        for run_id, groups in new.items():
            self._left[run_id] = waiting(groups)
        still = waiting({(one.cluster, one.group) for left in self._left.values() for one in left})
        # An offset that has given way to a greater one is that of a run that is kept itself.
        self._left = {run_id: left & still for run_id, left in self._left.items()}
        for run_id in [run_id for run_id, left in self._left.items() if not left]:
            del self._left[run_id]
            self._settled(run_id)


_RESERVE: Final = 0.5  # seconds of an end that are kept for ending

logger = logging.getLogger("eo_listener")


class BridgeService:
    """One driver's events, from its greeting to its end.

    Raises SettingsError for settings that cannot be used.
    """

    def __init__(self, hello: Hello, lines: Iterable[bytes], pipe: JvmClient) -> None:
        self._lines = lines
        self._pipe = pipe
        self._settings = Settings.from_conf(hello.conf)
        self._over: queue.SimpleQueue[float | EoListenerError] = queue.SimpleQueue()
        self._settler = Settler(self._settled)
        queries = BridgeQueries(pipe, self._settler.add)
        self._engine = CommitService(
            self._settings, queries, (self._settler,), shim_client=BridgeShimClient(pipe)
        )
        self._settler.start(self._engine.waiting)
        pipe.say(
            Greeting(
                package=__version__,
                flush=self._settings.flush_timeout,
                timeout=self._settings.bridge_timeout,
            )
        )

    def listen(self) -> float:
        """Serve until the driver ends or is gone; return the time left, in seconds.

        Raises FormatError for a line that cannot be read.
        """
        threading.Thread(target=self._read, name="eo-listener-lines", daemon=True).start()
        over = self._over.get()
        if isinstance(over, EoListenerError):
            raise over
        return over

    def close(self, seconds: float) -> None:
        """Commit what is left within so many seconds, and name what is lost."""
        self._engine.close(time.monotonic() + seconds)

    def _read(self) -> None:
        """Take lines until there are no more; at an end too, since answers still come."""
        try:
            for line in self._lines:
                self._take(line)
            self._pipe.close()
            self._over.put(self._settings.flush_timeout)
        except EoListenerError as error:
            self._over.put(error)
        except Exception:
            # A fault of ours: better another bridge, which the shim starts, than a deaf one.
            logger.exception("the bridge could not handle a line of the driver")
            self._over.put(EoListenerError("The bridge ends, for another one to take over"))

    def _take(self, line: bytes) -> None:
        reached("bridge.line")
        match messages.parse(line):
            case messages.Progressed(text):
                self._engine.progressed(text)
            case messages.Started(query_id=query_id, run_id=run_id, name=name):
                self._engine.started(query_id, run_id, name)
            case messages.Ended(run_id):
                self._engine.ended(run_id)
            case messages.Answer() as answer:
                self._pipe.answered(answer)
            case messages.Ping(number):
                self._say(Pong(number))
            case messages.End(seconds):
                self._over.put(max(0.0, seconds - _RESERVE))
            case None:
                logger.debug("the shim says something that this version does not know")

    def _settled(self, run_id: str) -> None:
        self._say(Forget(run_id))

    def _say(self, message: Pong | Forget) -> None:
        """Say what nobody needs to hear who is gone; that shows in the lines, and ends all."""
        try:
            self._pipe.say(message)
        except JvmError as error:
            logger.debug("the driver does not read any more: %s", error)
