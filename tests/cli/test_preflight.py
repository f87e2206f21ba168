"""`eo-listener preflight`: the table, the document, and the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eo_listener import cli
from eo_listener.errors import SettingsError
from eo_listener.spark.session import installation
from tests.broker import Broker
from tests.cli.commands import error_of, invoke
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


SINKS = """
from eo_listener import KafkaSink
from eo_listener.model.check_finding import CheckFinding, Severity

print("on its way")

class Own:
    def check(self, query):
        return [CheckFinding(level=Severity.NOTE, about="own", what=f"query {query}")]

class places:
    kafka = KafkaSink({"kafka.bootstrap.servers": "SERVERS"}, ["TOPICS"], ledger_topic="LEDGER")
    slow = KafkaSink(
        {"kafka.bootstrap.servers": "SERVERS"}, "a", ledger_topic="LEDGER", transaction_timeout=1000
    )
own = Own()
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write a module into the working directory, and say its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(text: str) -> str:
        name = f"job_{tmp_path.name}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


@pytest.mark.kafka
def test_a_sink_checks_itself(broker: Broker, job: Callable[[str], str]) -> None:
    """By its own arguments, on its own cluster; each problem has a line to be copied."""
    servers, ledger = broker.bootstrap_servers, unique("ledger")
    topics = Topics(servers)
    first, second = topics.create("b", 1), topics.create("a", 1)
    text = SINKS.replace("SERVERS", servers).replace("LEDGER", ledger)
    module = job(text.replace("TOPICS", f'{first}", "{second}'))
    own = ["--sink", f"{module}:own", "--query", "q"]
    answer = invoke("preflight", "--sink", f"{module}:places.kafka", *own, "--json")
    assert answer.exit_code == 0
    findings = json.loads(answer.stdout)["findings"]
    key = f"transactional id eo-listener/{second}%2C{first}/q"
    abouts = {finding["about"] for finding in findings}
    assert abouts >= {f"topic {first}", f"topic {second}", f"ledger {ledger}", key}
    assert findings[-1] == {"level": "note", "about": "own", "what": "query q", "advice": ""}
    assert all(finding.keys() == {"level", "about", "what", "advice"} for finding in findings)
    topics.create_as(ledger, 1)
    answer = invoke("preflight", "--sink", f"{module}:places.slow")
    assert answer.exit_code == 1
    alter = f"--alter --topic {ledger} --add-config cleanup.policy=compact"
    for line in (alter, "transaction_timeout=900", "--create --topic a", "to act on: 3"):
        assert any(line in finding for finding in answer.stdout.splitlines())


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("raise ValueError('hunter2')", "raised ValueError"),
        ("import sys; sys.exit(3)", "raised SystemExit"),
        ("import no_such_module_of_mine", "raised ModuleNotFoundError"),
        ("from eo_listener import DeltaSink; DeltaSink()", "path="),
    ],
)
def test_a_module_that_cannot_be_imported(job: Callable[[str], str], text: str, named: str) -> None:
    """One error, without the text of the module's own error, which may hold a secret."""
    error = error_of("preflight", "--sink", f"{job(text)}:sink")
    assert (type(error), named in str(error)) == (SettingsError, True), error
    assert "hunter2" not in str(error)


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
