"""`eo-listener ledger rename` and `accept` of a Kafka sink, by the command, on a real broker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from eo_listener.cli import app, java_client
from eo_listener.cli import ledger_repair as ledger_command
from eo_listener.client_config.identities import sink_transactional_id
from eo_listener.kafka.producers import BatchProducer
from eo_listener.model.errors import EoListenerError, InUseError, JavaError, SettingsError
from eo_listener.model.offsets import OffsetRange
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.spark import java
from eo_listener.testing.made_up_entries import QUERY
from tests.broker import Broker
from tests.cli.test_txn_broker import Kept
from tests.sinks.kafka.conftest import TP, Place, place_at, write
from tests.sinks.kafka.frames import without_spark

pytestmark = pytest.mark.kafka

QUICK = ["--watch", "0", "--execute"]
GAP = ["--partition", "flights-0", "--gap", "3..8"]


@pytest.fixture(scope="module", autouse=True)
def one_process() -> Iterator[None]:
    """One JVM for the commands of this file."""
    Kept.end()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(java_client, "ShimProcess", Kept)
        yield
    Kept.end()


@pytest.fixture
def place(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    without_spark(monkeypatch)
    made = place_at(broker.bootstrap_servers)
    with made.opened:
        yield made


@pytest.fixture
def sink(place: Place) -> KafkaSink:
    """One that has written a batch."""
    made = place.sink()
    write(made)
    return made


def run(place: Place, broker: Broker, command: str, *words: str) -> Result:
    more = ["-b", place.servers]
    if command != "show":
        more += ["--kafka-clients", str(broker.release.jars[0].parent)]
    answer = CliRunner().invoke(app, ["ledger", command, f"kafka:{place.ledger}", *words, *more])
    if isinstance(answer.exception, EoListenerError):
        raise answer.exception
    assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
    return answer


def test_the_dry_run_fences_nobody_and_says_who_will_be(
    place: Place, broker: Broker, sink: KafkaSink
) -> None:
    """The plan, whose id is taken over, and what that means, before it is done."""
    name = sink_transactional_id(place.target, QUERY)
    for command, words in (("rename", ["--to-query", "new"]), ("accept", GAP)):
        said = run(place, broker, command, *words).stdout
        assert f"it takes over the transactional id {name!r}: a driver that is in a batch" in said
        assert "dry run, nothing was changed" in said
        document = json.loads(run(place, broker, command, *words, "--json").stdout)
        assert not document["executed"]
        assert len(document["remarks"]) == 1
    described = BatchProducer({"bootstrap.servers": place.servers}, name, transaction_timeout=10)
    described.leave()
    write(sink, 1)  # by the same connections
    assert place.values() == ["row 0", "row 1"]


def test_a_gap_and_a_rename(place: Place, broker: Broker, sink: KafkaSink) -> None:
    """Both are done, and `ledger show` has both; the second time is refused in plain words."""
    assert (
        "accepted: the gap 3..8 of flights-0" in run(place, broker, "accept", *GAP, *QUICK).stdout
    )
    with pytest.raises(SettingsError, match="its next offset is 8"):
        run(place, broker, "accept", *GAP, *QUICK)
    renamed = run(place, broker, "rename", "--to-query", "new", *QUICK, "--json")
    document = json.loads(renamed.stdout)
    assert (document["executed"], document["heads"]) == (True, 1)
    with pytest.raises(SettingsError, match="has that name already"):
        run(place, broker, "rename", "--to-query", "new", *QUICK)
    shown = json.loads(run(place, broker, "show", "--history", "5", "--json").stdout)
    (ledger,) = shown["ledgers"]
    assert ledger["query"] == "new"
    assert [head["next_offset"] for head in ledger["heads"]] == [8]
    assert [(one["verdict"], one["gap"]) for one in ledger["history"]] == [
        ("next", None),
        ("gap accepted", [3, 8]),
        (f"renamed from {place.target}, query {QUERY}", None),
    ]
    assert "new" in run(place, broker, "show", "--history", "5").stdout


@pytest.mark.parametrize("command", [["rename", "--to-query", "new"], ["accept", *GAP]])
def test_a_query_that_runs(
    place: Place,
    broker: Broker,
    sink: KafkaSink,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is seen by its open transaction, by an id that was taken over, and by the ledger."""
    name = sink_transactional_id(place.target, QUERY)
    live = BatchProducer({"bootstrap.servers": place.servers}, name, transaction_timeout=60)
    live.take_over(10, topic=place.target)
    live.begin()
    live.send(place.target, b"under way")
    live.flush(10)
    with pytest.raises(InUseError, match=f"the transaction of '{name}' is Ongoing"):
        run(place, broker, *command)
    live.commit(10)
    live.leave()

    def taken(_: float) -> None:
        again = BatchProducer({"bootstrap.servers": place.servers}, name, transaction_timeout=60)
        again.take_over(10, topic=place.target)
        again.leave()

    monkeypatch.setattr(
        ledger_command, "time", SimpleNamespace(sleep=taken, monotonic=time.monotonic)
    )
    with pytest.raises(InUseError, match=f"another producer has taken over '{name}' meanwhile"):
        run(place, broker, *command, "--execute")
    moved = SimpleNamespace(sleep=lambda _: write(sink, 1), monotonic=time.monotonic)
    monkeypatch.setattr(ledger_command, "time", moved)
    with pytest.raises(InUseError, match="has moved meanwhile: flights-0"):
        run(place, broker, *command, "--execute")
    assert sink.applied(QUERY)[TP].range == OffsetRange(3, 6)
    assert sink.applied("new") == {}


def test_without_java(
    place: Place, broker: Broker, sink: KafkaSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is done all the same, for it is safe; what cannot be looked at is said."""

    def absent(*_: Any, **__: Any) -> Any:
        raise JavaError("no Java was found")

    monkeypatch.setattr(java, "find", absent)
    address = f"kafka://{place.servers}/{place.ledger}"
    answer = CliRunner().invoke(app, ["ledger", "accept", address, *GAP, *QUICK])
    assert answer.exit_code == 0, answer.exception
    assert "whether a transaction of that id is open is not known" in answer.stdout
    assert "no Java was found" in answer.stdout
    assert sink.applied(QUERY)[TP].range == OffsetRange(8, 8)
    with pytest.raises(JavaError):
        run(place, broker, "accept", *GAP, *QUICK)


@pytest.mark.slow
def test_a_broker_that_is_away() -> None:
    """One error within the time of a question."""
    answer = CliRunner().invoke(
        app, ["ledger", "accept", "kafka:eo-ledger", "-b", "127.0.0.1:1", *GAP]
    )
    assert isinstance(answer.exception, EoListenerError)
    assert answer.exception.exit_code == 3
