"""Numbers over HTTP: of a router and a committer at work, and of all `exactly_once`."""

from __future__ import annotations

import contextlib
import importlib
import json
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from eo_listener import SqliteSink, exactly_once
from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.tracking.event_buffer import Ended
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.commit.tracking.tracker_thread import TrackerThread
from eo_listener.errors import KafkaError, SettingsError, UnavailableError
from eo_listener.events import GroupOffsetsMissing, Observers
from eo_listener.foreach_batch.exactly_once import ExactlyOnce
from eo_listener.model.progress import Progress
from eo_listener.observers import bounded_server
from eo_listener.observers.metrics.prometheus import Prometheus
from eo_listener.observers.metrics.serve import CountWhereServed, open_metrics
from eo_listener.offsets import Offsets
from eo_listener.testing import MemoryGroups, MemoryQueries, MemorySink
from tests.foreach_batch.stage import P0, Plans, Stage, frame_of
from tests.observers.metrics.test_prometheus import Series, of_text, series, value

SECRET = "hunter2-planted"  # noqa: S105  # planted, to be looked for
OPTIONS = {
    0: {
        "kafka.bootstrap.servers": "k:9092",
        "kafka.consumer.commit.groupid": "flights-to-pg",
        "kafka.sasl.jaas.config": f'required username="u" password="{SECRET}";',
    }
}


@pytest.fixture
def observer() -> Iterator[Prometheus]:
    made = open_metrics(0)
    yield made
    made.close()
    assert not [one for one in threading.enumerate() if one.name == "eo-listener-metrics"]


def scrape(observer: Prometheus) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{observer.port}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text: str = answer.read().decode()
    return text


def recorded() -> list[str]:
    """The JSON of the events of a small query, as Spark 4.0 sent them."""
    path = Path(__file__).parents[2] / "data" / "events-4.0.0.json"
    return [
        json.dumps(one["json"])
        for one in json.loads(path.read_text())["events"]
        if one["event"] == "progress" and one["case"] == "one"
    ]


def test_a_scrape_shows_what_was_committed_and_no_secret(observer: Prometheus) -> None:
    """Of recorded events; the password that the options and an error hold is nowhere."""
    store = MemoryGroups()
    refusal = KafkaError(f"no: {SECRET}", code="GROUP_AUTHORIZATION_FAILED", cause=SECRET)
    observers = Observers(observer)
    committer = Committer(lambda cluster: store, observers=observers)
    router = TrackerThread(GroupRouting(), MemoryQueries(OPTIONS), committer, observers)
    events = recorded()
    for text in events:
        router.put(Progress.parse(text))
        assert router.flush(time.monotonic() + 10)
        assert committer.flush(10)
    store.faults.append(Mock(side_effect=refusal))
    store.groups["flights-to-pg"].clear()
    router.put(Ended(Progress.parse(events[-1]).run_id))
    router.close(time.monotonic() + 10)
    committer.close(10)
    text = scrape(observer)
    assert SECRET not in text
    found = {
        (sample.name.removeprefix("eo_listener_"), sample.labels.get("partition")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    wanted = {
        ("consumergroup_current_offset", "1"): 42,
        ("consumergroup_lag", "1"): 0,
        ("consumergroup_current_offset_sum", None): 44 + 42 + 24,
        ("query_input_rows", None): 10,
        ("query_processed_rows_per_second", None): pytest.approx(6.761325219743069),
        ("query_lag_seconds", None): 0,
    }
    assert {key: found[key] for key in wanted} == wanted
    assert found["commits_total", None] >= 2
    assert 'consumergroup="flights-to-pg"' in text
    assert 'cluster="k:9092"' in text


def test_it_listens_on_loopback_alone(observer: Prometheus) -> None:
    """Unless told otherwise nobody from another machine can ask."""
    sockets = [
        one.laddr.ip
        for one in psutil.Process().net_connections("tcp")
        if one.status == psutil.CONN_LISTEN and one.laddr.port == observer.port
    ]
    assert sockets == ["127.0.0.1"]


def ask(observer: Prometheus, request: str) -> bytes:
    with socket.create_connection(("127.0.0.1", observer.port or 0), timeout=10) as client:
        client.sendall(f"{request} HTTP/1.0\r\n\r\n".encode())
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_names_can_be_chosen_in_the_request(observer: Prometheus) -> None:
    """`?name[]=`, as `params` of a Prometheus job make it, returns that metric and no other."""
    answer = ask(observer, "GET /metrics?name[]=eo_listener_build_info")
    assert b"\neo_listener_build_info{" in answer
    assert b"eo_listener_internal_errors" not in answer


def test_only_its_own_path_has_the_metrics(observer: Prometheus) -> None:
    """HEAD is answered there too, without the numbers; any other path is 404."""
    assert ask(observer, "GET /metrics").startswith(b"HTTP/1.0 200")
    head = ask(observer, "HEAD /metrics")
    assert head.startswith(b"HTTP/1.0 200")
    assert b"eo_listener" not in head
    for request in ("GET /", "GET /foo", "HEAD /", "GET /metrics/x"):
        assert ask(observer, request).startswith(b"HTTP/1.0 404"), request


def test_a_bad_path_is_a_bad_request(
    observer: Prometheus, caplog: pytest.LogCaptureFixture
) -> None:
    """It is answered, and is no fault of ours in the log."""
    for method in ("GET", "HEAD"):
        assert ask(observer, f"{method} http://[/metrics").startswith(b"HTTP/1.0 400")
    assert not caplog.records


def test_a_name_that_cannot_be_encoded_spoils_no_scrape(observer: Prometheus) -> None:
    """Half of a character in a name is shown escaped, and all other numbers with it."""
    observer(GroupOffsetsMissing(cluster="k:9092", group="g\udcfc", offsets=Offsets({})))
    text = scrape(observer)
    assert 'consumergroup="g\\\\udcfc"' in text
    assert "eo_listener_build_info" in text


def test_a_fault_is_logged_in_short(
    observer: Prometheus, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its text may hold all the numbers there are."""
    monkeypatch.setattr(observer, "collect", Mock(side_effect=ValueError("x" * 1_000_000)))
    ask(observer, "GET /metrics")
    (record,) = [one for one in caplog.records if "cannot answer a request" in one.message]
    assert "ValueError" in record.message
    assert len(record.message) < 400


def test_one_who_drips_bytes_is_closed(
    observer: Prometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never silent, but its request takes too long."""
    monkeypatch.setattr(bounded_server, "_LONGEST", 1.0)
    with socket.create_connection(("127.0.0.1", observer.port or 0), timeout=30) as client:
        closed = threading.Event()

        def drip() -> None:
            with contextlib.suppress(OSError):  # it was closed
                while not closed.wait(0.05):
                    client.sendall(b"x")

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert client.recv(1) == b""
        except ConnectionResetError:
            pass  # the same, with bytes that were not read any more
        finally:
            closed.set()
            dripping.join()


def test_a_registry_takes_one_observer() -> None:
    """A second one would give every number twice; it is told what to do."""
    registry = CollectorRegistry()
    Prometheus(registry)
    with pytest.raises(SettingsError, match="already"):
        Prometheus(registry)


def test_a_port_has_one_server_at_a_time() -> None:
    """Taken, it is one error that says what to change; after closing it can be had at once."""
    first = open_metrics(0)
    port = first.port
    assert port is not None
    with pytest.raises(UnavailableError, match=f"127.0.0.1:{port}.*another port"):
        open_metrics(port)
    first.close()
    second = open_metrics(port)
    assert "eo_listener_build_info" in scrape(second)
    second.close()
    assert second.port is None


def test_an_address_that_cannot_be_served_is_one_clear_error() -> None:
    """A port that is none is wrong use; 192.0.2.1 is nobody's (RFC 5737)."""
    for port in (-1, 65536):
        with pytest.raises(SettingsError, match="from 0 to 65535"):
            open_metrics(port)
    with pytest.raises(UnavailableError, match=r"192\.0\.2\.1:0"):
        open_metrics(0, "192.0.2.1")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """prometheus_client is no dependency of its own accord."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    for module in [
        name for name in sys.modules if name.startswith("eo_listener.observers.metrics.")
    ]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(SettingsError, match=r"eo-listener\[metrics\]"):
        open_metrics(0)
    with pytest.raises(ImportError, match=r"eo-listener\[metrics\]") as lacking:
        importlib.import_module("eo_listener.observers.metrics.prometheus")
    assert lacking.value.name == "prometheus_client"


def halt(function: ExactlyOnce) -> None:
    """Have a batch broken off: what it is given is no DataFrame of a query that can be asked."""
    with pytest.raises(SettingsError, match="checkpoint="):
        function(object(), 0)  # type: ignore[arg-type]  # that is what is wrong
    function.close()


def shown(observer: Prometheus) -> Series:
    return of_text(scrape(observer))


def batch_failures(observer: Prometheus, query: str = "flights") -> float | None:
    return value(shown(observer), "sink_batch_failures_total", query=query, error="SettingsError")


def test_a_sink_is_counted_without_a_word(observer: Prometheus, tmp_path: Path) -> None:
    """It may be there before or after it; one that is given as an observer too counts once."""
    first = exactly_once(SqliteSink(tmp_path / "a.db", table="t"), name="flights")
    second = open_metrics(0)
    halt(first)
    assert (batch_failures(observer), batch_failures(second)) == (1, 1)
    second.close()
    halt(exactly_once(SqliteSink(tmp_path / "b.db", table="t"), name="b", observers=[observer]))
    halt(exactly_once(SqliteSink(tmp_path / "c.db", table="t"), name="b", observers=[second]))
    assert batch_failures(observer, "b") == 2
    assert "b" in second._counters.numbers().sinks
    assert batch_failures(observer) == 1


def test_a_server_that_was_closed_counts_no_more(tmp_path: Path) -> None:
    """And nothing of it is left."""
    made = open_metrics(0)
    made.close()
    halt(exactly_once(SqliteSink(tmp_path / "a.db", table="t"), name="flights"))
    assert not made._counters.numbers().sinks
    assert not [one for one in threading.enumerate() if one.name == "eo-listener-metrics"]


def test_what_the_steps_tell_is_what_is_shown(observer: Prometheus) -> None:
    """A real batch's offsets, rows and replays are exported, and given to the user's observer."""
    stage = Stage(Plans({0: {P0: (3, 5)}}), [MemorySink(), MemorySink(key="b")])
    for _ in range(2):
        steps = stage.batches()
        steps._observers = Observers(CountWhereServed(()), stage.events.append)
        steps.run(frame_of(stage.plans.ranges[0]), 0)
    found = shown(observer)
    own = {key: one for key, one in series(*stage.events).items() if "sink" in key[0]}
    assert own.items() <= found.items()
    query = {"query": "flights"}
    assert value(found, "sink_applied_offset", **query, topic="t", partition="0") == 5
    assert value(found, "sink_rows_total", **query) == 4
    assert value(found, "sink_batches_total", **query, outcome="replayed") == 2
