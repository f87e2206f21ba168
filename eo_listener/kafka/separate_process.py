"""Makes dangerous calls, which may end their process, in a separate process.

librdkafka's requests for groups sometimes end their process while a broker restarts (see
`eo_listener.kafka`).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, ProcessPoolExecutor
from concurrent.futures import TimeoutError as Late
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any, TypeVar

_T = TypeVar("_T")


class SeparateProcess:
    """Makes calls in another process; a call starts the process if it is not running.

    Only one thread may use it, but any thread may call `close`. `pid` is None while the process
    does not run.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self.pid: int | None = None

    def call(
        self, function: Callable[..., _T], *arguments: object, timeout: float | None = None
    ) -> _T:
        """Call `function` in the process, and return its result.

        The function, its arguments and its result are pickled.

        Raises BrokenProcessPool if the process has ended or was closed. After `timeout` seconds,
        the method ends the process and raises concurrent.futures.TimeoutError.
        """
        try:
            return self._opened().submit(function, *arguments).result(timeout)
        except (BrokenProcessPool, CancelledError) as error:
            self.close()
            raise BrokenProcessPool from error
        except Late:
            self.close()
            raise

    def close(self) -> None:
        """End the process at once, even in the middle of a call."""
        with self._lock:  # a pool that is shut down by two threads closes its pipes twice
            pool, pid = self._pool, self.pid
            self._pool = self.pid = None
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)

    def _opened(self) -> ProcessPoolExecutor:
        if self._pool is not None and self.pid is not None:
            return self._pool
        # Not forked: a fork would not have librdkafka's threads.
        spawned: Any = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(1, mp_context=spawned, initializer=_end_with_parent)
        with self._lock:
            self._pool = pool
        pid = pool.submit(os.getpid).result()
        with self._lock:
            if self._pool is not pool:
                raise BrokenProcessPool  # it was closed meanwhile
            self.pid = pid
        return pool


def _end_with_parent() -> None:
    """Ignore Ctrl-C, and end when the parent process ends, even by SIGKILL.

    Otherwise a pool's worker would wait forever: it holds both ends of the queue that it waits on.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.sentinel,), daemon=True).start()


def _exit_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(0)
