"""Runs that are committed from here, and so must not be by the listener of the shim too."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any, Final

from py4j.java_gateway import JavaClass

from eo_listener.spark.jvm.calls import asking

_KEPT: Final = 10_000  # as many as the shim keeps
_RUN: Final = re.compile(r'"runId"\s*:\s*"([^"]+)"')


class RunClaims:
    """Tells the shim of each run once; without the shim there is nobody to tell.

    The shim waits a second for it when a run has begun, and lets go of one that was running
    before the listener was added when its first event is seen here.
    """

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._claimed: OrderedDict[str, None] = OrderedDict()
        self._claim: Any = None
        self._looked = False

    def take(self, run_id: str) -> None:
        """Claim a run. Raises JvmError."""
        if run_id in self._claimed:
            return
        self._claimed[run_id] = None
        if len(self._claimed) > _KEPT:
            self._claimed.popitem(last=False)
        with asking("assign a run to this listener"):
            if not self._looked:
                found = self._jvm.io.github.eolistener.OffsetCommitListener
                # A class that the JVM does not have py4j takes for one more package.
                self._claim = found.claim if isinstance(found, JavaClass) else None
                self._looked = True
            if self._claim is not None:
                self._claim(run_id)

    def take_from(self, progress: str) -> None:
        """Claim the run of a progress event. Raises JvmError."""
        run = _RUN.search(progress)
        if run is not None:
            self.take(run[1])
