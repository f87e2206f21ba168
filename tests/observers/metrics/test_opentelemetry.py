"""The same numbers by OpenTelemetry: through the real SDK, and over OTLP to a server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    Metric,
    NumberDataPoint,
    PeriodicExportingMetricReader,
)

from eo_listener.errors import SettingsError
from eo_listener.events import Event
from eo_listener.observers.metrics.opentelemetry import OpenTelemetry
from eo_listener.offsets import Offsets
from tests.http_server import QuietHandler, serving
from tests.observers.events import APPLIED, HALTED, P0, P1, VIOLATED, committed
from tests.observers.metrics.test_prometheus import progressed, series

EVENTS: tuple[Event, ...] = (
    committed(Offsets({P0: 5, P1: 7})),
    committed(Offsets({P0: 9}), seconds=3.0),
    committed(Offsets({P0: 1}), group="half a character \ud83d"),
    progressed(Offsets({P0: 5, P1: 7}), Offsets({P0: 9, P1: 9}), rows=3),
    APPLIED,
    HALTED,
    VIOLATED,
)
Numbers = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(reader: InMemoryMetricReader) -> dict[str, Metric]:
    data = reader.get_metrics_data()
    assert data is not None
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    assert scope.scope.name == "eo_listener"
    return {metric.name: metric for metric in scope.metrics}


def numbers(found: dict[str, Metric]) -> Numbers:
    """As a scrape of Prometheus names them, but for the histogram."""
    result: Numbers = {}
    for name, metric in found.items():
        total = "_total" if type(metric.data).__name__ == "Sum" else ""
        for point in metric.data.data_points:
            if isinstance(point, NumberDataPoint):
                labels = {str(key): str(value) for key, value in (point.attributes or {}).items()}
                result[f"{name}{total}", tuple(sorted(labels.items()))] = point.value
    return result


@contextmanager
def observed(**options: Any) -> Iterator[tuple[OpenTelemetry, InMemoryMetricReader]]:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    try:
        yield OpenTelemetry(provider, **options), reader
    finally:
        provider.shutdown()


def test_names_labels_and_values_are_those_of_prometheus() -> None:
    """So that a dashboard works whichever way they came; only the histogram is another kind."""
    wanted = {
        key: value
        for key, value in series(*EVENTS).items()
        if not key[0].startswith("eo_listener_commit_latency")
        and not key[0].endswith("timestamp_seconds")  # of the clock
    }
    with observed() as (observer, reader):
        for event in EVENTS:
            observer(event)
        found = numbers(read(reader))
    assert {key: found[key] for key in wanted} == wanted
    assert all(key[0].endswith("timestamp_seconds") for key in found.keys() - wanted.keys())


def test_each_export_has_the_newest_numbers() -> None:
    """What is drawn for one export is not shown again by the next, however soon it comes."""
    key = ("eo_listener_commits_total", (("cluster", "k:9092"), ("consumergroup", "g")))
    with observed() as (observer, reader):
        for times in range(1, 4):
            observer(committed(Offsets({P0: times})))
            assert numbers(read(reader))[key] == times


def test_latencies_are_a_histogram() -> None:
    """With the bounds that Prometheus gets, and counts instead of sums of counts."""
    with observed() as (observer, reader):
        for event in EVENTS:
            observer(event)
        (point,) = read(reader)["eo_listener_commit_latency_seconds"].data.data_points
    assert isinstance(point, HistogramDataPoint)
    assert point.count == 3
    assert point.sum == pytest.approx(3.04)
    assert point.explicit_bounds[:3] == (0.005, 0.01, 0.025)
    assert [at for at, count in enumerate(point.bucket_counts) if count] == [2, 9]


def test_of_a_large_topic_there_are_sums() -> None:
    """The SDK would put what is beyond its limit into one series, without its labels."""
    with observed(partitions=1) as (observer, reader):
        observer(committed(Offsets({P0: 5, P1: 7})))
        found = read(reader)
    assert "eo_listener_consumergroup_current_offset" not in found
    (point,) = found["eo_listener_consumergroup_current_offset_sum"].data.data_points
    assert isinstance(point, NumberDataPoint)
    assert point.value == 12


def test_a_provider_has_them_once() -> None:
    """Twice, every number would be exported twice."""
    provider = MeterProvider([InMemoryMetricReader()])
    OpenTelemetry(provider)
    with pytest.raises(SettingsError, match="observer"):
        OpenTelemetry(provider)
    provider.shutdown()


SET_AFTERWARDS = """
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from eo_listener.observers.metrics.opentelemetry import OpenTelemetry
from tests.observers.metrics.test_opentelemetry import EVENTS, numbers, read

observer = OpenTelemetry()
observer(EVENTS[0])
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
observer(EVENTS[1])
found = numbers(read(reader))
print(found["eo_listener_commits_total", (("cluster", "k:9092"), ("consumergroup", "g"))])
"""


def test_the_programs_own_provider_may_be_set_afterwards() -> None:
    """Nothing is lost by it: the numbers are totals. It is set for good, so in another process."""
    command = [sys.executable, "-c", SET_AFTERWARDS]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    assert ran.stdout == "2\n"


def test_a_collector_gets_them_by_otlp() -> None:
    """The SDK's own exporter, whose request a collector's own message type can read."""
    requests: list[ExportMetricsServiceRequest] = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802  # http.server's name for it
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serving(Handler) as port:
        exporter = OTLPMetricExporter(endpoint=f"http://127.0.0.1:{port}/v1/metrics", timeout=2)
        reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
        provider = MeterProvider([reader])
        observer = OpenTelemetry(provider)
        for event in EVENTS:
            observer(event)
        provider.shutdown(timeout_millis=30_000)  # which exports what there is
    (scope,) = requests[0].resource_metrics[0].scope_metrics
    found = {metric.name: metric for metric in scope.metrics}
    commits = found["eo_listener_commits"].sum
    assert commits.is_monotonic
    assert sorted(point.as_int for point in commits.data_points) == [1, 2]
    assert found["eo_listener_commit_latency_seconds"].unit == "s"
    lag = found["eo_listener_consumergroup_lag_sum"].gauge.data_points[0]
    assert {one.key: one.value.string_value for one in lag.attributes}["topic"] == "t"
