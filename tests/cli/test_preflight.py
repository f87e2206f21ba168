"""`eo-listener preflight`: the table, the document, and the exit code."""

from __future__ import annotations

import json

import pytest

from eo_listener import cli
from eo_listener.spark.session import installation
from tests.broker import Broker
from tests.cli.commands import invoke
from tests.groups import commit
from tests.topics import Topics, unique


@pytest.mark.kafka
def test_people_get_a_table_and_a_line_for_each_thing_to_do(broker: Broker) -> None:
    """Names stay as they are; the lines are whole, to be copied. Something to do exits with 1."""
    servers, group = broker.bootstrap_servers, unique("[/red]")
    topic = Topics(servers).create(partitions=1)
    commit(servers, group, topic, {0: 1000})
    answer = invoke("preflight", "-b", servers, "-g", group, "-t", topic, "--mode", "transactional")
    assert answer.exit_code == 1
    lines = answer.stdout.splitlines()
    assert any("problem" in line and "[/red]" in line and "beyond" in line for line in lines)
    assert any(line.endswith(f"'eo-listener-{group}'") for line in lines)
    assert lines[-1] == "to act on: 1"


@pytest.mark.kafka
def test_a_sink_is_asked_about_by_its_arguments(broker: Broker) -> None:
    """Its topics, ledger, time-out and transactional id; what is wrong has a line to be copied."""
    servers, ledger = broker.bootstrap_servers, unique("ledger")
    topics = Topics(servers)
    first, second = topics.create("b", 1), topics.create("a", 1)
    sink = ["--sink-topic", first, "--sink-topic", second, "--sink-ledger-topic", ledger]
    answer = invoke("preflight", "-b", servers, *sink, "--sink-query", "q", "--json")
    assert answer.exit_code == 0
    findings = json.loads(answer.stdout)["findings"]
    own = f"transactional id eo-listener/{second}%2C{first}/q"
    abouts = {one["about"] for one in findings}
    assert abouts >= {f"topic {first}", f"topic {second}", f"ledger {ledger}", own}
    assert all(one.keys() == {"level", "about", "what", "advice"} for one in findings)
    topics.create_as(ledger, 1)
    answer = invoke("preflight", "-b", servers, *sink, "--sink-transaction-timeout", "1000")
    assert answer.exit_code == 1
    alter = f"--alter --topic {ledger} --add-config cleanup.policy=compact"
    for line in (alter, "transaction_timeout=900", "to act on: 2"):
        assert any(line in one for one in answer.stdout.splitlines())


def test_without_a_cluster_only_this_machine_is_checked() -> None:
    """Python, Spark, Java, connector and shim."""
    answer = invoke("preflight", "--json")
    assert answer.exit_code == 0
    findings = json.loads(answer.stdout)["findings"]
    assert {one["about"] for one in findings} == {"this machine"}
    whole = " ".join(one["what"] for one in findings)
    for word in ("Python 3", "Spark", "Java", "shim"):
        assert word in whole


def test_a_machine_without_spark_can_be_all_right(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`follow` needs neither pyspark nor Java: that they are missing is a note."""
    monkeypatch.setattr(installation, "spark_homes", lambda: ())
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    cli.app(["preflight", "--json"], standalone_mode=False)
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert "problem" not in {one["level"] for one in findings}
    notes = [one["what"] for one in findings if one["level"] == "note"]
    assert any("Spark is not installed" in what for what in notes)
    assert any("Java" in what for what in notes)
