"""The service that takes events from the listener or the bridge, and commits offsets."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.group_offsets import GroupKeys, Waiting
from eo_listener.commit.tracking.event_buffer import Ended, Idle, Started
from eo_listener.commit.tracking.tracker_thread import TrackerThread
from eo_listener.errors import FormatError, UnavailableError
from eo_listener.events import Observer, Observers
from eo_listener.kafka.group_stores import check, has_gssapi, librdkafka_properties, open_cluster
from eo_listener.listener.settings import Settings
from eo_listener.model.fault_points import fault_point
from eo_listener.model.progress import Progress
from eo_listener.model.protocols import GroupStore, QueryReader, ShimClient
from eo_listener.observers.log import EventLogger
from eo_listener.observers.metrics.serve import open_metrics
from eo_listener.preflight.start_check import StartCheck

if TYPE_CHECKING:
    from eo_listener.observers.metrics.prometheus import Prometheus

logger = logging.getLogger("eo_listener")


class CommitService:
    """The tracker and the committer of one driver, configured by its settings.

    `queries` reads running queries. `observers` get every event, after the log. If there is a
    `shim_client`, work that needs Java runs in the JVM through it. Every method without a deadline
    returns immediately. Raises SettingsError.
    """

    def __init__(
        self,
        settings: Settings,
        queries: QueryReader,
        observers: Iterable[Observer] = (),
        *,
        shim_client: ShimClient | None = None,
    ) -> None:
        self._mode, self._shim_client = settings.mode.value, shim_client
        check(settings.kafka, self._mode)
        routing = replace(settings.routing, gssapi=has_gssapi())
        self._clusters: dict[str, Cluster] = {}  # the clusters in use, by their name in events
        self._own_observers = tuple(self._open_observers(settings))
        everybody = Observers(EventLogger(), *self._own_observers, *observers)
        self._committer = Committer(self._open, observers=everybody, policy=settings.policy)
        self._tracker = TrackerThread(
            routing,
            queries,
            self._committer,
            everybody,
            guard=settings.guard,
            recommit_interval=settings.recommit_interval,
        )

    def _open_observers(self, settings: Settings) -> Iterator[Prometheus | StartCheck]:
        if settings.metrics_port is not None:
            try:
                yield open_metrics(settings.metrics_port, settings.metrics_address)
            except UnavailableError as error:  # without metrics, commits must still go on
                logger.warning("%s; commits continue without metrics", str(error).rstrip("."))
        if settings.preflight:
            yield StartCheck(
                self._properties, mode=self._mode, recommit_interval=settings.recommit_interval
            )

    def _open(self, cluster: Cluster) -> GroupStore:
        self._clusters[str(cluster)] = cluster
        return open_cluster(cluster, self._mode, self._shim_client)

    def _properties(self, name: str) -> Mapping[str, str] | None:
        """Return librdkafka's properties of a cluster, or None if they are not available."""
        cluster = self._clusters.get(name)
        if cluster is None or cluster.client == "java":
            return None
        return librdkafka_properties(cluster, self._shim_client)

    def started(self, query_id: str, run_id: str, name: str | None) -> None:
        """Tell the tracker that a run has begun."""
        self._tracker.put(Started(query_id, run_id, name))

    def progressed(self, text: str) -> None:
        """Tell the tracker that a batch has ended.

        `text` is the JSON of the batch's StreamingQueryProgress.
        """
        fault_point("listener.progress")
        try:
            self._tracker.put(Progress.parse(text))
        except FormatError as error:
            self._tracker.put(error)

    def idle(self, run_id: str) -> None:
        """Tell the tracker that a run had nothing to do."""
        self._tracker.put(Idle(run_id))

    def ended(self, run_id: str) -> None:
        """Tell the tracker that a run has ended."""
        self._tracker.put(Ended(run_id))

    def flush(self, deadline: float) -> bool:
        """Wait until all durable offsets are committed; return True if they are.

        Returns False when the monotonic clock passes `deadline`.
        """
        routed = self._tracker.flush(deadline)
        return self._committer.flush(_left(deadline)) and routed

    def waiting(self, groups: GroupKeys) -> frozenset[Waiting]:
        """Return the offsets of `groups` that Kafka has neither confirmed nor finally rejected."""
        return self._committer.waiting(groups)

    def close(self, deadline: float) -> None:
        """Commit remaining offsets until `deadline`, close everything, and report lost offsets."""
        self._tracker.close(deadline)
        self._committer.close(_left(deadline))
        for observer in self._own_observers:
            observer.close()


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
