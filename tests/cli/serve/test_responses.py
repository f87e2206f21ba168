"""What each path is answered with; no socket is opened."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from eo_listener.cli.position_reader import AuditRequest
from eo_listener.cli.serve.groups_section import path_of
from eo_listener.cli.serve.page_server import respond
from eo_listener.cli.serve.watched import Watched
from eo_listener.errors import KafkaError
from eo_listener.model.lag_window import LagVerdict
from eo_listener.observers.metrics.families import (
    StatusNumbers,
    audit_families,
    exposed,
    status_families,
)
from eo_listener.offsets import TopicPartition
from tests.cli.checkpoint_files import CheckpointFiles
from tests.cli.serve.made_up import CLUSTER, HOSTILE, AuditHere, Clock, FakeReader, group, watched


@pytest.fixture
def audited(tmp_path: Path) -> Watched:
    """A checkpoint of two batches, audited without a cluster."""
    tp = TopicPartition("flights", 0)
    files = CheckpointFiles(tmp_path / "c", {tp: 0}, {tp: 10})
    made = Watched(CLUSTER, every=10.0, audit_every=60.0, now=Clock())
    made.read_audit(AuditHere(AuditRequest(checkpoint=str(files.folder))))
    return made


def away(made: Watched, reader: FakeReader) -> Watched:
    """The next reading fails."""
    reader.found = KafkaError("no broker answered", code="_TRANSPORT")
    made.try_groups(reader)
    return made


def test_status_is_the_document_of_the_command() -> None:
    """The same `groups`, with when they were read; hostile names can be encoded."""
    found = [group(name, topic=name, query=name) for name in HOSTILE]
    made, _, clock = watched(found)
    answer = respond(made.view(), [], "/api/status")
    document = json.loads(answer.body)
    assert document["groups"] == [one.document() for one in found]
    assert document["read_at"] == clock().wall
    assert answer.kind == "application/json"


def test_a_status_that_is_not_known_has_no_numbers() -> None:
    """503, until when something was known, and why not now."""
    made, reader, clock = watched([group("g")])
    read_at = clock().wall
    answer = respond(away(made, reader).view(), [], "/api/status")
    document = json.loads(answer.body)
    assert answer.status == 503
    assert "groups" not in document
    assert document["known_until"] == read_at
    assert "no broker answered" in document["error"]
    assert document["errors"][0]["about"] == "groups"


def test_an_audit_is_the_document_of_the_command(audited: Watched) -> None:
    """With the last batches of each ledger; without one it says what to start with."""
    document = json.loads(respond(audited.view(), [], "/api/audit").body)
    assert document["verdict"].startswith("nothing")
    assert document["partitions"][0]["committed"] == 10
    assert document["last_batches"] == []
    assert "audit" in respond(audited.view(), [], "/").body.decode()
    metrics = respond(audited.view(), [], "/metrics").body.decode()
    assert "eo_listener_status_audit_lost_records 0.0" in metrics
    assert "eo_listener_status_audit_complete 1.0" in metrics
    made, _, _ = watched([group("g")])
    answer = respond(made.view(), [], "/api/audit")
    assert answer.status == 404
    assert "--checkpoint" in json.loads(answer.body)["error"]


def test_metrics_are_those_of_the_groups() -> None:
    """Lag and offset by partition, verdict and age by group; names are escaped."""
    made, _, clock = watched([group('g"\n\\', [7, None, 12])])
    text = respond(made.view(), [], "/metrics").body.decode()
    found: dict[tuple[str, ...], float] = {
        (sample.name.removeprefix("eo_listener_status_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    labels = ("k:9092", 'g"\n\\')
    of_group = {(key[0], *key[3:]): found[key] for key in found if key[1:3] == labels}
    verdicts = {("consumergroup_verdict", one.value): one is LagVerdict.OK for one in LagVerdict}
    assert of_group == verdicts | {
        ("consumergroup_lag", "0", "flights"): 3,
        ("consumergroup_lag", "2", "flights"): 0,  # ahead of the log's end
        ("consumergroup_lag_sum", "flights"): 3,
        ("consumergroup_current_offset", "0", "flights"): 7,
        ("consumergroup_current_offset", "2", "flights"): 12,
        ("consumergroup_current_offset_sum", "flights"): 19,
        ("consumergroup_lag_seconds",): 5,
    }
    assert found["topic_partition_current_offset", "k:9092", "1", "flights"] == 10
    assert (found[("known",)], found[("timestamp_seconds",)]) == (1, clock().wall)


def test_metrics_without_a_reading_have_no_group() -> None:
    """An old number would be taken for a new one; that nothing is known is one."""
    made, reader, _ = watched([group("g")])
    text = respond(away(made, reader).view(), [], "/metrics").body.decode()
    assert "eo_listener_status_known 0.0" in text
    assert "consumergroup=" not in text


def test_series_are_bounded() -> None:
    """Of topics beyond the limit there are sums, and how many partitions that concerns."""
    made, _, _ = watched([group(f"g{number}", range(100), end=100) for number in range(200)])
    text = respond(made.view(), [], "/metrics").body.decode()
    assert len(re.findall("^eo_listener_status_consumergroup_lag{", text, re.MULTILINE)) == 10_000
    assert len(re.findall("^eo_listener_status_consumergroup_lag_sum{", text, re.MULTILINE)) == 200
    assert "eo_listener_status_partitions_without_series 10000.0" in text


def test_without_the_extra_metrics_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """All other paths work without prometheus_client."""
    made, _, _ = watched([group("g")])
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "eo_listener.observers.metrics.families")
    monkeypatch.delattr("eo_listener.observers.metrics.families")
    answer = respond(made.view(), [], "/metrics")
    assert answer.status == 501
    assert b"Install eo-listener[metrics]" in answer.body
    assert respond(made.view(), [], "/").status == 200


def test_the_document_names_every_metric_and_no_other() -> None:
    """docs/how-to/serve.md is what people write their alerts by."""
    text = (Path(__file__).parents[3] / "docs/how-to/serve.md").read_text()
    named = set(re.findall(r"\beo_listener_[a-z_]*[a-z]\b", text))
    families = [*status_families(StatusNumbers(cluster="k"), 10), *audit_families(None)]
    there = {family.name for family in families}
    assert named == there
    assert b"eo_listener_status_known 0.0" in exposed(StatusNumbers(cluster="k"))


def test_health_is_of_this_process() -> None:
    """A Kafka that is away is no reason to start it again; a thread that has ended is one."""
    made, reader, _ = watched([group("g")])
    assert respond(made.view(), [], "/healthz").body == b"ok, groups read\n"
    answer = respond(away(made, reader).view(), [], "/healthz")
    assert (answer.status, answer.body) == (200, b"ok, nothing is known of the groups\n")
    assert respond(made.view(), ["it has ended"], "/healthz").status == 503


@pytest.mark.parametrize(
    ("targets", "status"),
    [
        ("/ /?page=2 /?page=0 /page.css /page.js GROUP GROUP?x=1", 200),
        ("/?page=-1 /?page=9999999999 /?page=%3Cscript%3E http://[/ /?" + 100 * "a=1&", 400),
        ("/page.py /../page.py /%2e%2e/command.py /api * GROUP/x", 404),
        ("/group/ /group/0123456789abcdef", 404),
    ],
)
def test_paths(targets: str, status: int) -> None:
    """Only what there is; no path reaches a file."""
    view = watched([group("g")])[0].view()
    for target in targets.replace("GROUP", path_of("g")).split():
        assert respond(view, [], target).status == status, target
