"""What cannot be started is said plainly, and leaves nothing running."""

from __future__ import annotations

import socket
from pathlib import Path

import psutil
import pytest

from eo_listener.model.errors import JavaError, SettingsError
from tests.broker import Broker, ports
from tests.broker.errors import BrokerError
from tests.conftest import StartBroker

pytestmark = pytest.mark.kafka


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def test_a_port_in_use_is_said_before_java_is_started(broker: Broker) -> None:
    """Kafka is not started to find out, and the process that holds the port is named."""
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    before = children()
    with pytest.raises(BrokerError, match=f"Port {port} is in use") as caught:
        Broker(port=port).start()
    assert f"process {broker.pids[1]} (java)" in str(caught.value)
    assert children() == before


def test_missing_java_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JAVA_HOME without Java is an error that says how to install one."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match="Java was not found"):
        Broker().start()


def test_a_setting_that_kafka_refuses_is_quoted_and_its_logs_are_kept(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    """The error quotes Kafka's last word and names a log that is still there."""
    before = children()
    with pytest.raises(BrokerError) as caught:
        start_broker(data=tmp_path, properties={"num.io.threads": "many"})
    assert "num.io.threads" in str(caught.value.cause)
    assert str(tmp_path) in str(caught.value.fix)
    assert children() == before


def test_a_node_that_ends_at_once_is_noticed_at_once(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    """A JVM that refuses its options is not waited for, and is quoted."""
    with pytest.raises(BrokerError, match="ended instead of answering") as caught:
        start_broker(data=tmp_path, java_options=["-XX:NoSuchOption"])
    assert "NoSuchOption" in str(caught.value.cause)
    output = tmp_path / "node-1" / "output.log"
    assert str(output) in str(caught.value.fix)
    assert "NoSuchOption" in output.read_text()


def test_a_free_port_that_is_taken_meanwhile_is_exchanged(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port that another process takes between choice and use costs a try, not the start."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        honest, answers = ports.assign, list[dict[int, dict[str, int]]]()

        def once_wrong(*arguments: object) -> dict[int, dict[str, int]]:
            chosen = honest(*arguments)  # type: ignore[arg-type]  # handed on as it came
            if not answers:
                chosen[1]["PLAINTEXT"] = taken
            answers.append(chosen)
            return chosen

        monkeypatch.setattr(ports, "assign", once_wrong)
        broker = start_broker()
    assert len(answers) == 2
    assert broker.bootstrap_servers != f"127.0.0.1:{taken}"


@pytest.mark.parametrize(
    "options", [{"nodes": 0}, {"version": "1"}, {"properties": {"node.id": "7"}}]
)
def test_wrong_use_is_refused_at_once(options: dict[str, object]) -> None:
    """Nothing is downloaded or started for what can be seen to be wrong."""
    with pytest.raises(SettingsError):
        Broker(**options)  # type: ignore[arg-type]  # each row gives one argument of its own


def test_a_data_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    """A file in the way is a wrong use, not a traceback."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="cannot hold data"):
        Broker(data=tmp_path / "file" / "data").start()


def test_a_broker_on_a_temporary_folder_cannot_be_detached(broker: Broker) -> None:
    """Nobody would remove its folder."""
    with pytest.raises(SettingsError, match="Give it a data folder"):
        broker.detach()
    assert len(broker.pids) == 1
