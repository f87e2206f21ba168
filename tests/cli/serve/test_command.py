"""The command: what is wrong use, what ends it, and the page of a real broker."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from eo_listener import cli
from eo_listener.cli.position_reader import AuditRequest
from eo_listener.cli.serve import command
from eo_listener.cli.serve.watched import Watched
from eo_listener.errors import KafkaError, SettingsError, UnavailableError
from tests.broker import Broker
from tests.cli.sqlite_ledger import Store
from tests.groups import commit
from tests.processes import Program
from tests.topics import Topics, unique
from tests.waiting import until

Asked = list[tuple[AuditRequest, float]]


def typed(*words: object) -> None:
    cli.app(["serve", *map(str, words)], standalone_mode=False)


def test_a_port_that_is_taken_is_one_error() -> None:
    """Before Kafka is asked, which would take a while."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UnavailableError, match=rf"127.0.0.1:{port}: .*in use.*--port"):
            typed("g", "-b", "127.0.0.1:1", "--port", port)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What a service would be started with: the request of its audit, and the seconds between."""
    found: Asked = []

    def service(watched: Watched, reader: object, request: AuditRequest, between: float) -> Any:
        found.append((request, between))
        return SimpleNamespace(run=lambda *_: None)

    monkeypatch.setattr(command, "_Service", service)
    monkeypatch.setattr(command, "StatusReader", lambda *_, **__: None)
    return found


@pytest.mark.parametrize(
    ("words", "groups"),
    [(["a", "b*", "c"], ("a", "c")), (["a", "-g", "x"], ("x",)), (["--all"], ())],
)
def test_an_audit_is_of_the_groups_that_are_named(
    words: list[str], groups: tuple[str, ...], asked: Asked, tmp_path: Path
) -> None:
    """Of -g, or else of those that stand for no pattern."""
    typed(*words, "-b", "127.0.0.1:1", "--ledger", f"sqlite:{tmp_path / 's.db'}")
    ((request, _),) = asked
    assert request.groups == groups


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        (["sqlite:s.db"], 60.0),
        (["delta:/lake/delays"], 300.0),
        (["iceberg:lake.db.t", "--audit-every", "30", "--spark-conf", "spark.a=b"], 30.0),
    ],
)
def test_a_ledger_in_a_table_is_read_more_seldom(
    words: list[str], seconds: float, asked: Asked
) -> None:
    """Each of its readings costs a Spark more than one of a database."""
    typed("g", "-b", "127.0.0.1:1", "--ledger", *words)
    assert [between for _, between in asked] == [seconds]
    with pytest.raises(SettingsError, match="at least 30"):
        typed("g", "-b", "127.0.0.1:1", "--ledger", "delta:/d", "--audit-every", "29")


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310  # our own
        text: str = answer.read().decode()
    return text


@pytest.mark.kafka
def test_a_page_of_a_real_group(broker: Broker, tmp_path: Path) -> None:
    """Page, documents and metrics of a group and a ledger; Ctrl-C ends it with 0 and no word."""
    servers, group = broker.bootstrap_servers, unique("<b>page")
    topics = Topics(servers)
    topic = topics.create(partitions=1)
    topics.fill(topic, 10)
    commit(servers, group, topic, {0: 7})
    store = Store(tmp_path / "s.db")
    words = [group, "-b", servers, "--every", "1", "--ledger", store.address, "--port", "0"]
    with Program([sys.executable, "-m", "eo_listener", "serve", *words]) as process:
        line = process.await_line("serving ")
        served = re.fullmatch(r"serving (http://127\.0\.0\.1:\d+)/ until Ctrl-C", line)
        assert served is not None, line
        url = served[1]
        page = get(f"{url}/")
        assert "&lt;b&gt;page" in page
        assert "<b>" not in page
        (one,) = json.loads(get(f"{url}/api/status"))["groups"]
        assert (one["group"], one["lag"], len(one["partitions"])) == (group, 3, 1)
        assert "eo_listener_status_known 1.0" in get(f"{url}/metrics")
        commit(servers, group, topic, {0: 10})
        until(lambda: json.loads(get(f"{url}/api/status"))["groups"][0]["lag"] == 0)
        until(lambda: "verdict" in get(f"{url}/api/audit"), despite=urllib.error.HTTPError)
        assert get(f"{url}/healthz") == "ok, groups read\n"
        assert process.ending(signal.SIGINT) == (0, "")


def test_a_first_reading_that_fails_is_one_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing was ever read, so address or password are wrong: said once, and the port is free."""
    refusal = KafkaError("wrong password", code="_AUTHENTICATION")
    reader = Mock(read=Mock(side_effect=refusal))
    monkeypatch.setattr(command, "StatusReader", lambda *_, **__: reader)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(KafkaError, match="wrong password") as refused:
        typed("g", "-b", "127.0.0.1:1", "--port", port)
    assert refused.value.exit_code == 3
    reader.close.assert_called_once_with()
    assert not caplog.records
    socket.create_server(("127.0.0.1", port)).close()
