"""What a data folder was made for, and what is said of one that is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eo_listener.model.errors import FormatError, SettingsError
from tests.broker import Broker
from tests.broker.storage import Storage, new_cluster_id

PORTS = {1: {"PLAINTEXT": 20001, "CONTROLLER": 20002}}


def stored(**changed: Any) -> Storage:
    return Storage(
        **{"cluster_id": new_cluster_id(), "version": "4.1.2", "ports": PORTS, **changed}
    )


def test_a_storage_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Round trip through the file, the ports of every node included."""
    storage = stored(ports={**PORTS, 2: {"PLAINTEXT": 20003}})
    assert Storage.read(tmp_path) is None
    storage.write(tmp_path)
    assert Storage.read(tmp_path) == storage
    assert storage.nodes == 2


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        {"version": "mine"},
        {"version": "3.8.0"},
        {"version": 4},
        {"cluster_id": "short"},
        {"ports": None},
        {"ports": {}},
        {"ports": {"2": {"PLAINTEXT": 20001}}},
        {"ports": {"one": {"PLAINTEXT": 20001}}},
        {"ports": {"1": ["PLAINTEXT"]}},
        {"ports": {"1": {"PLAINTEXT": "20001"}}},
        {"ports": {"1": {"PLAINTEXT": 99999}}},
    ],
)
def test_a_damaged_folder_is_said_before_anything_is_started(
    damage: str | dict[str, Any], tmp_path: Path
) -> None:
    """One error names the file; none is taken for a wrong option of the user."""
    stored().write(tmp_path)
    file = tmp_path / "storage.json"
    if isinstance(damage, dict):
        damage = json.dumps({**json.loads(file.read_text()), **damage})
    file.write_text(damage)
    with pytest.raises(FormatError, match="data folder is damaged") as caught:
        Broker(data=tmp_path).start()
    assert str(file) in caught.value.problem
    assert "--data" in str(caught.value.fix)
    assert "--version" not in str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "version", "said"),
    [(3, "4.1.2", "--nodes 1"), (1, "3.9.2", "--version 4.1.2")],
)
def test_data_of_another_size_or_a_newer_release_are_refused(
    nodes: int, version: str, said: str, tmp_path: Path
) -> None:
    """What Kafka could not open is said before it tries."""
    storage = stored()
    storage.require(nodes=1, version="4.2.0", data=tmp_path)
    with pytest.raises(SettingsError, match=said):
        storage.require(nodes=nodes, version=version, data=tmp_path)


def test_an_id_is_never_taken_for_an_option() -> None:
    """Kafka's StorageTool would read an id that begins with a dash as one."""
    made = [new_cluster_id() for _ in range(500)]
    assert {len(one) for one in made} == {22}
    assert not [one for one in made if one.startswith("-")]


def test_topics_are_not_lost_with_the_note_about_them(tmp_path: Path) -> None:
    """Where storage.json is gone but topics are there, nothing is formatted anew."""
    segment = tmp_path / "node-1" / "records" / "flights-0" / "00000000000000000000.log"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(b"records")
    with pytest.raises(SettingsError, match="holds topics, but no storage"):
        Broker(data=tmp_path).start()
    assert segment.read_bytes() == b"records"
