"""Checks the groups of a listener at its start, and logs the findings."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping

from eo_listener.errors import EoListenerError
from eo_listener.events import Event, RunGroupsChanged
from eo_listener.model.check_finding import CheckFinding
from eo_listener.preflight.child_process import LONGEST, ask, start
from eo_listener.preflight.facts import Request

GATHER = 10.0  # seconds to wait for more groups, as a driver's queries tend to start together
_AT_ONCE = 50  # groups in one child
_MOST = 200  # groups of one driver: more would keep the driver busy, and fill the log

logger = logging.getLogger("eo_listener")

Properties = Callable[[str], Mapping[str, str] | None]
"""Returns librdkafka's properties for a cluster's name in events, or None to skip the check."""


class StartCheck:
    """An observer that checks each group once, when a query first uses it, but at most 200 groups.

    `gather` seconds after the first event that names a cluster, it calls `properties_of`, checks
    the groups of that cluster, and logs the findings. It raises nothing and waits for nothing: its
    own thread starts one child process at a time, and ends when no group is left to check.
    """

    def __init__(
        self,
        properties_of: Properties,
        *,
        mode: str,
        recommit_interval: float,
        gather: float = GATHER,
    ) -> None:
        self._properties_of = properties_of
        self._gather = gather
        self._mode, self._recommit_interval = mode, recommit_interval
        self._changed = threading.Condition()
        self._waiting: dict[str, set[str]] = {}
        self._known: set[tuple[str, str]] = set()
        self._logged: set[CheckFinding] = set()  # groups of one cluster share some findings
        self._child: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def __call__(self, event: Event) -> None:
        """Schedule the check of new groups, and return at once."""
        if not isinstance(event, RunGroupsChanged) or event.ended:
            return
        with self._changed:
            for cluster, group in event.groups - self._known:
                if len(self._known) >= _MOST:
                    break
                self._known.add((cluster, group))
                self._waiting.setdefault(cluster, set()).add(group)
            if self._waiting and self._thread is None and not self._closed:
                self._thread = threading.Thread(
                    target=self._work, name="eo-listener-preflight", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """End the running check, and return within two seconds."""
        with self._changed:
            self._closed = True
            if self._child is not None:
                self._child.kill()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(2.0)

    def _work(self) -> None:
        """Check the waiting groups; end the thread when no group waits."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed, self._gather)
                if self._closed or not self._waiting:
                    self._thread = None
                    return
                cluster = next(iter(self._waiting))
                waiting = sorted(self._waiting.pop(cluster))
                groups = tuple(waiting[:_AT_ONCE])
                if waiting[_AT_ONCE:]:
                    self._waiting[cluster] = set(waiting[_AT_ONCE:])
            try:
                self._check(cluster, groups)
            except Exception as error:  # noqa: BLE001  # a convenience: its errors have no effect
                logger.info("preflight of %s failed: %s", cluster, type(error).__name__)

    def _check(self, cluster: str, groups: tuple[str, ...]) -> None:
        properties = self._properties_of(cluster)
        if properties is None:
            return
        request = Request(
            properties=properties,
            groups=groups,
            mode=self._mode,
            recommit_interval=self._recommit_interval,
            running=True,
        )
        try:
            findings = self._ask(request)
        except EoListenerError as error:
            if not self._closed:
                logger.info("preflight of %s: %s", cluster, error)
        else:
            log_findings(finding for finding in findings if finding not in self._logged)
            self._logged.update(findings)

    def _ask(self, request: Request) -> tuple[CheckFinding, ...]:
        with self._changed:
            if self._closed:
                return ()
            child = self._child = start(polite=True)
        try:
            answer = ask(child, request, LONGEST)
            # Failed commits already report a cluster that cannot be reached.
            return answer.findings if answer.reached else ()
        finally:
            self._child = None


def log_findings(findings: Iterable[CheckFinding]) -> None:
    """Log each finding on one line, at WARNING if it matters, otherwise at DEBUG."""
    for finding in findings:
        advice = f". Fix: {finding.advice}" if finding.advice else ""
        logger.log(
            logging.WARNING if finding.matters else logging.DEBUG,
            "preflight, %s, %s: %s%s",
            finding.level.value,
            finding.about,
            finding.what,
            advice,
        )
