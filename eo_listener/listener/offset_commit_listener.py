"""The listener that users add: it passes Spark's events to the committer."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from eo_listener.commit.tracking.group_names import Groups
from eo_listener.commit.tracking.query_run import RECOMMIT_INTERVAL
from eo_listener.errors import JvmError
from eo_listener.events import Observer
from eo_listener.listener.commit_service import CommitService
from eo_listener.listener.settings import FLUSH_TIMEOUT, Guarding, Mode, Rewinding, Settings
from eo_listener.model.argument_checks import require_observers, require_seconds
from eo_listener.model.fault_points import fault_point
from eo_listener.observers.bounded_server import LOOPBACK

if TYPE_CHECKING:
    from eo_listener.spark.jvm.driver import Driver

logger = logging.getLogger("eo_listener")

_DRAIN = 5.0  # seconds for Spark to deliver the last events, a part of the time for a close
# Strong references: after `spark.streams.addListener(OffsetCommitListener())` there are no others,
# and a listener without references could not be closed at the end of the program.
_open: set[OffsetCommitListener] = set()


class _ConnectRuns:
    """The live runs that Spark Connect reported.

    Only the event of a run's end proves that all its events have arrived.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: set[str] = set()

    def began(self, run_id: str) -> None:
        """Record that a run has begun, and return at once."""
        with self._changed:
            self._open.add(run_id)

    def ended(self, run_id: str) -> None:
        """Record that a run has ended, after its last event, and return at once."""
        with self._changed:
            self._open.discard(run_id)
            self._changed.notify_all()

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds until all runs have ended; return True if they have."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout)


class OffsetCommitListener(StreamingQueryListener):
    """Commits the offsets that queries have processed to Kafka consumer groups.

        spark.streams.addListener(OffsetCommitListener())

    After each batch that Spark has made durable, the listener commits the end offsets of the
    batch's Kafka sources to the group that the source option `kafka.consumer.commit.groupid` (or
    `eo.commit.group`) names. The listener does not commit a source without a group.

    `groups` names groups in the program, and takes precedence over the options: `{"query":
    "group"}`, or `{"query": {"topic": "group", "*": "group of the rest"}}`, with the query's name
    or id. `group_template` names the group of sources without an entry and without an option: the
    template is a text with `{query_name}`, `{query_id}` or `{topic}`. `bootstrap_servers` and
    `kafka` (librdkafka properties) take precedence over the sources' own settings.

    `mode` is the way in which the listener commits: "simple" (no member, not fenced), "member" (a
    live, fixed member: the group is Stable) or "transactional" (fenced by a transactional id).
    `guard` decides what happens if a batch does not continue where the previous batch ended:
    "withhold" stops commits for that source until a restart with "warn". `on_rewind` decides what
    happens if a query's offsets are below its group's offsets: "refuse" the commit, or "allow" it
    and record that in the commit's metadata. `recommit_interval` is the time, in seconds, after
    which all offsets are committed again, so that they do not expire.

    The listener calls `observers` with every event of `eo_listener.events`, on the thread on which
    the event occurred. `flush_timeout` is the time, in seconds, for which `close` and the end of
    the program wait for Kafka. `preflight=False` leaves out the check of rights, groups and
    settings at the start, which runs in a separate process. With `metrics_port`, the listener
    serves metrics for Prometheus at that port of `metrics_address`.

    The listener does not block, slow down or fail a query: its own threads commit, and retry
    commits while Kafka is unavailable. Raises SettingsError for settings that cannot be used.
    """

    def __init__(
        self,
        groups: Groups = MappingProxyType({}),
        *,
        group_template: str | None = None,
        bootstrap_servers: str | None = None,
        kafka: Mapping[str, str] = MappingProxyType({}),
        mode: Mode = "simple",
        guard: Guarding = "withhold",
        on_rewind: Rewinding = "refuse",
        recommit_interval: float = RECOMMIT_INTERVAL,
        observers: Iterable[Observer] = (),
        flush_timeout: float = FLUSH_TIMEOUT,
        preflight: bool = True,
        metrics_port: int | None = None,
        metrics_address: str = LOOPBACK,
    ) -> None:
        settings = Settings.from_arguments(
            groups=groups,
            group_template=group_template,
            bootstrap_servers=bootstrap_servers,
            kafka=kafka,
            mode=mode,
            guard=guard,
            on_rewind=on_rewind,
            recommit_interval=recommit_interval,
            flush_timeout=flush_timeout,
            preflight=preflight,
            metrics_port=metrics_port,
            metrics_address=metrics_address,
        )
        observers = require_observers(observers)
        self._flush_timeout = flush_timeout
        self._process = os.getpid()
        self._driver = driver = _driver()
        self._service = CommitService(
            settings,
            NoQueries() if driver is None else driver.queries,
            observers,
            shim_client=None if driver is None else driver.shim_client,
        )
        self._connect_runs = _ConnectRuns()
        _open.add(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """Record a new run. Only Spark Connect calls this; classic PySpark uses `_jlistener`."""
        self._connect_runs.began(str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        """Pass the event's JSON to the commit service, and return at once."""
        self._connect_runs.began(str(event.progress.runId))
        self._service.progressed(event.progress.json)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # Spark's name
        """Tell the commit service that the run is idle, and return at once."""
        self._service.idle(str(event.runId))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        """Tell the commit service that the run has ended, and return at once."""
        self._service.ended(str(event.runId))
        self._connect_runs.ended(str(event.runId))

    @property
    def _jlistener(self) -> Any:
        """The object that classic PySpark registers in the JVM.

        pyspark's own object would make 80 calls for each event.
        """
        return None if self._driver is None else self._driver.listener(self._service)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all offsets that Spark has processed are committed; return True if they are.

        Waits at most `timeout` seconds (default: `flush_timeout`). Also returns False if a group
        lacks offsets for one of these reasons: they were refused or withheld, a setting is wrong,
        the query cannot be read, or a slower query of the same group holds them back. If such a
        query has ended, the method returns False until the query's next run, or until no query has
        used the cluster for five minutes. Sources without a group do not count. Do not call this
        method from a listener.
        """
        wait = self._flush_timeout if timeout is None else require_seconds("timeout", timeout)
        deadline = time.monotonic() + wait
        drained = self._drain(deadline)
        return self._service.flush(deadline) and drained

    def close(self) -> None:
        """Commit remaining offsets, stop threads, close connections.

        Python also calls this method at the end of the program. The method waits for about
        `flush_timeout` seconds at most. If offsets are still unconfirmed by then, the log and
        CommitAbandoned events report them. Further calls do nothing.
        """
        self._close(time.monotonic() + self._flush_timeout)

    def _close(self, deadline: float) -> None:
        _open.discard(self)
        if os.getpid() != self._process:  # a forked process has the object, but not its threads
            return
        fault_point("close.before-drain")
        self._drain(deadline)
        fault_point("close.before-flush")
        self._service.close(deadline)
        if self._driver is not None:
            self._driver.queries.close()
        fault_point("close.after-flush")

    def _drain(self, deadline: float) -> bool:
        delivered = self._connect_runs.wait(_left(deadline))
        return (self._driver is None or self._driver.drain(_left(deadline))) and delivered


def _left(deadline: float) -> float:
    return min(_DRAIN, max(0.0, deadline - time.monotonic()))


def _driver() -> Driver | None:
    """Return a driver for this process's JVM, or None if only `pyspark-client` is installed.

    `pyspark-client` is for Spark Connect only.
    """
    if find_spec("py4j") is None:
        return None
    from eo_listener.spark.jvm.driver import Driver  # noqa: PLC0415  # needs py4j

    return Driver()


@atexit.register
def _close_all() -> None:
    """Close all listeners, within the longest `flush_timeout` of them."""
    listeners = list(_open)
    timeouts = [listener._flush_timeout for listener in listeners]  # noqa: SLF001  # our own
    deadline = time.monotonic() + max(timeouts, default=0.0)
    for listener in listeners:
        try:
            listener._close(deadline)  # noqa: SLF001  # our own
        except Exception:
            # The next listener must still be closed, and the program must end.
            logger.exception("a listener of eo_listener could not be closed")


class NoQueries:
    """The `QueryReader` of a Spark Connect client, which cannot read the server's queries."""

    def options(self, query_id: str, run_id: str) -> NoReturn:  # noqa: ARG002  # the protocol's
        """Raise JvmError."""
        raise JvmError(
            f"cannot read the state of query {query_id}",
            cause="it runs on a Spark Connect server, and this is its client",
            fix="Register the listener on the server by configuration, or name servers and "
            "groups here",
        )

    mode = position = beginnings = has_ended = options

    def forget(self, run_id: str) -> None:
        """Do nothing, because this reader stores nothing about a run."""
