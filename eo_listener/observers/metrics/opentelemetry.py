"""The observer that exports metrics through OpenTelemetry."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Final

from eo_listener.errors import MissingExtraError, SettingsError
from eo_listener.events import Committed, Event
from eo_listener.observers.metrics.counters import LATENCIES, EventCounters, Numbers
from eo_listener.version import __version__

try:
    from opentelemetry.metrics import (
        CallbackOptions,
        Meter,
        MeterProvider,
        Observation,
        get_meter_provider,
    )
    from prometheus_client import Metric

    from eo_listener.observers.metrics.families import Families
except ImportError as error:
    raise MissingExtraError(
        "metrics by OpenTelemetry", package="opentelemetry", extra="opentelemetry"
    ) from error

PARTITIONS: Final = 1_000
_GROUPS: Final = 500  # some metrics have several series for each group
_OLDEST: Final = 5.0  # seconds that one export of all instruments may take

_lock = threading.Lock()
_providers: weakref.WeakSet[MeterProvider] = weakref.WeakSet()


class OpenTelemetry:
    """Counts events; a MeterProvider of OpenTelemetry exports the numbers.

        OffsetCommitListener(observers=[OpenTelemetry()])

    Without `provider`, the class uses the provider that the program has set, or will set. Names,
    labels and values are those of `Prometheus`, without the suffix `_total`, which a collector adds
    for Prometheus. At most `partitions` partitions have series of their own; topics beyond this
    limit have only sums. The default leaves room below the limit of the SDK, which merges all
    series of a metric beyond 2,000 into one. As an observer, the object returns at once: the
    exporting thread computes the values. Raises SettingsError for a provider that already has these
    metrics.

    Source: OpenTelemetry's Metrics API, asynchronous instruments.
    """

    def __init__(
        self, provider: MeterProvider | None = None, *, partitions: int = PARTITIONS
    ) -> None:
        provider = get_meter_provider() if provider is None else provider
        _take(provider)
        self._counters = EventCounters(_GROUPS)
        self._families = Families(partitions)
        self._lock = threading.Lock()
        self._drawn: dict[str, Metric] = {}
        self._drawn_at = 0.0
        meter = provider.get_meter("eo_listener", __version__)
        families = list(Families(0).draw(Numbers()))
        (latency,) = (family for family in families if family.type == "histogram")
        # OpenTelemetry has no asynchronous histogram.
        self._latency = meter.create_histogram(
            latency.name,
            _unit(latency),
            latency.documentation,
            explicit_bucket_boundaries_advisory=LATENCIES,
        )
        for family in families:
            if family is not latency:
                _register(meter, family, self._observe)

    def __call__(self, event: Event) -> None:
        """Count one event."""
        self._counters(event)
        if isinstance(event, Committed):
            self._latency.record(event.seconds, {"cluster": event.cluster})

    def _observe(self, name: str) -> Iterable[Observation]:
        """Return the values of one instrument; each export reads all instruments in turn."""
        with self._lock:
            # All instruments share one set of values. The next export begins when an instrument is
            # read again, and needs new values: those of an interrupted export are too old.
            if name not in self._drawn or time.monotonic() - self._drawn_at > _OLDEST:
                families = self._families.draw(self._counters.numbers())
                self._drawn = {family.name: family for family in families}
                self._drawn_at = time.monotonic()
            family = self._drawn.pop(name)
        return [Observation(sample.value, sample.labels) for sample in family.samples]


def _take(provider: MeterProvider) -> None:
    with _lock:
        if provider in _providers:
            raise SettingsError(
                "this MeterProvider already has the metrics of eo_listener",
                cause="another OpenTelemetry() uses it",
                fix="Pass that object to every listener and every exactly_once, as an observer",
            )
        _providers.add(provider)


def _register(
    meter: Meter, family: Metric, observe: Callable[[str], Iterable[Observation]]
) -> None:
    def callback(_: CallbackOptions) -> Iterable[Observation]:
        return observe(family.name)

    create: Any = (
        meter.create_observable_counter
        if family.type == "counter"
        else meter.create_observable_gauge
    )
    suffix = "_info" if family.type == "info" else ""
    create(f"{family.name}{suffix}", [callback], _unit(family), family.documentation)


def _unit(family: Metric) -> str:
    return "s" if family.name.endswith("_seconds") else ""
