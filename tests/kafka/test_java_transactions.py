"""What is asked of many is asked in parts; the shim is a stand-in."""

from __future__ import annotations

import json
from typing import Any

from eo_listener.kafka.java_transactions import JavaTransactions, OpenProducer
from eo_listener.model.offsets import TopicPartition

ROW = {"state": "Empty", "producerId": 1, "epoch": 0, "timeoutMs": 2**31 - 1, "startedAt": None}
REFUSED = {"code": "NOT_COORDINATOR", "cause": "it moves"}


class Shim:
    """Answers for each id and partition, one of them with an error; `sizes` has what came."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.named: list[str] = []

    def call(self, what: str, argument: str) -> str:
        asked = json.loads(argument)
        answer = getattr(self, what.rpartition(".")[2])(asked)
        return json.dumps({"v": 1, **answer})

    def describe(self, asked: dict[str, Any]) -> dict[str, Any]:
        names = asked["transactionalIds"]
        self.sizes.append(len(names))
        errors = {name: REFUSED for name in names if name == "id-700"}
        rows = {name: {**ROW, "topics": {"t": [0]}} for name in names if name not in errors}
        return {"described": rows, "errors": errors}

    def producers(self, asked: dict[str, Any]) -> dict[str, Any]:
        (numbers,) = asked["topics"].values()
        self.sizes.append(len(numbers))
        errors = {"t": {str(one): REFUSED for one in numbers if one == 17}}
        return {"open": {"t": [[one, 9, 0, 5, 1, 1] for one in numbers]}, "errors": errors}

    def list(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.sizes.append(len(asked["producers"]))
        return {"listed": [[number, f"id-{number}"] for number in asked["producers"]]}

    def there(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert asked["batch"] == "b"
        self.sizes.append(len(asked["identities"]))
        self.named += asked["identities"].split("\n")
        return {}


def test_many_transactions_are_described_in_parts() -> None:
    """Not one by one, and not without a limit; one that fails does not hold up the others."""
    shim = Shim()
    answer = JavaTransactions(shim, {}).describe_all([f"id-{n}" for n in range(1200)], 1.0)
    assert shim.sizes == [500, 500, 200]
    assert (len(answer.found), set(answer.errors)) == (1199, {"id-700"})
    assert answer.found["id-3"].partitions == {TopicPartition("t", 0)}
    assert answer.found["id-3"].two_phase


def test_the_producers_of_many_partitions_are_asked_for_in_parts() -> None:
    """A leader answers with all producers of a partition, open or not: ten at a time fit."""
    shim = Shim()
    partitions = [TopicPartition("t", number) for number in range(25)]
    answer = JavaTransactions(shim, {}).open_producers(partitions, 1.0)
    assert shim.sizes == [10, 10, 5]
    assert set(answer.found) == set(partitions)
    assert answer.found[partitions[3]] == (OpenProducer(9, 0, 5, 1, 1),)
    assert [error.code for error in answer.errors.values()] == ["NOT_COORDINATOR"]


def test_the_ids_of_many_producers_are_asked_for_in_parts() -> None:
    """Of all coordinators each time."""
    shim = Shim()
    assert len(JavaTransactions(shim, {}).transactional_ids(range(1200), 1.0)) == 1200
    assert shim.sizes == [500, 500, 200]


def test_rows_that_are_there_are_named_in_parts() -> None:
    """Each a megabyte, however many they are: a task of Spark takes no more than some of them."""
    shim = Shim()
    names = [f'["{number:9}"]' for number in range(200_000)]
    JavaTransactions(shim, {}).leave_out("b", iter(names))
    assert shim.named == names
    assert len(shim.sizes) == 3
    assert max(shim.sizes) < 1_200_000
    JavaTransactions(shim, {}).leave_out("b", ())
    assert len(shim.sizes) == 3
