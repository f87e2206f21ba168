"""What the bridge does with the lines of the JVM."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterable
from typing import Final

from eo_listener.bridge import messages
from eo_listener.bridge.ended_runs import Settler
from eo_listener.bridge.jvm_client import JvmClient
from eo_listener.bridge.messages import Forget, Greeting, Hello, Pong
from eo_listener.bridge.questions import BridgeQueries, BridgeShimClient
from eo_listener.listener.commit_service import CommitService
from eo_listener.listener.settings import Settings
from eo_listener.model.errors import EoListenerError, JvmError
from eo_listener.model.fault_points import reached
from eo_listener.version import __version__

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
            self._settings, queries, (self._settler,), hands=BridgeShimClient(pipe)
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
