"""Files of exported groups: both forms, and whatever else a file may hold."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from eo_listener.errors import FormatError
from eo_listener.model.offsets_file import (
    ExportedGroup,
    ExportedPartition,
    read_exported,
    write_csv,
    write_json,
)
from eo_listener.offsets import TopicPartition

ROWS = tuple(
    ExportedPartition(partition=TopicPartition("t.a_b-c", number), offset=number * 2**40)
    for number in range(3)
)
ODD = 'a group, with "quotes" and\nlines'


def as_json(**changed: Any) -> str:
    one = {"topic": "t", "partition": 0, "offset": 5, **changed}
    return json.dumps({"v": 1, "groups": [{"group": "g", "partitions": [one]}]})


def test_kafkas_csv() -> None:
    """Without the group's name for one group, with it for several; read back either way."""
    one = ExportedGroup(group="g", partitions=ROWS)
    text = write_csv([one])
    assert text.splitlines()[1] == f"t.a_b-c,1,{2**40}"
    assert read_exported(text) == (ExportedGroup(group=None, partitions=ROWS),)
    both = (one, ExportedGroup(group=ODD, partitions=ROWS[:1]))
    assert read_exported(write_csv(both)) == both
    assert read_exported("\ufeff" + text.replace("\n", "\r\n") + "\r\n")[0].partitions == ROWS


def test_json_keeps_all() -> None:
    """Topic ids, times and metadata of several groups come back."""
    row = replace(ROWS[1], offset=2**62, topic_id="id", timestamp=7, metadata='{"v":1}')
    groups = (
        ExportedGroup(group="g", partitions=(row, ROWS[0])),
        ExportedGroup(group=ODD, partitions=()),
    )
    text = write_json(groups, servers="a:1", exported_at=5)
    assert read_exported(text) == read_exported("\ufeff" + text) == groups


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("{", "is truncated"),
        (as_json()[:-5], "is truncated"),
        ('{"t":{"0":5}}', r"name its format.*--from-offsets"),
        ('{"v":2,"groups":[]}', "has format 2.*newer eo-listener"),
        ('{"v":1}', "a field is missing"),
        ('{"v":1,"groups":[{"group":"g"}]}', "a field is missing"),
        ('{"v":1,"groups":{"a":1}}', "a field is missing"),
        (as_json(offset=-1), "t-0: "),
        (as_json(offset="5"), "t-0: "),
        (as_json(offset=True), "t-0: "),
        (as_json(offset=2**63), "t-0: "),
        (as_json(partition=-1), "valid partition number"),
        (as_json(partition=None), "t-None is not a partition"),
        (as_json(topic="a b"), "valid topic name"),
        (as_json(topic=".."), "valid topic name"),
        (as_json(timestamp=-1), "t-0: its timestamp"),
        (as_json(timestamp="x"), "t-0: its timestamp"),
        (as_json(topic_id=1), "t-0: its topic id"),
        ("topic,partition,offset\nt,0,5", "line 1: "),
        ("t,0,5\nt,1", "line 2 has 2 columns"),
        ("t,0", "line 1 has 2 columns"),
        ("t,0,5\ng,t,0,5", "line 2 has 4 columns"),
        ("t,0,-2", "line 1: "),
        ("t,0,1e3", "line 1: "),
        ("t,0,9999999999999999999", "line 1: "),
        ("t,0,5\nt,0,6", "t-0 appears twice"),
        (as_json()[:-2] + "," + as_json().partition("[")[2], "group g appears twice"),
        (as_json().replace('"offset": 5', '"offset": 5, "offset": 6'), "offset appears twice"),
        (as_json().replace('"g"', "null"), "a group has no name"),
        (",0,5", "valid topic name"),
        ('"t,0,5', "not CSV"),
        ("[1,2,3]", "line 1"),
    ],
)
def test_what_cannot_be_read(text: str, words: str) -> None:
    """Is one error that says where it is wrong, and what to type."""
    with pytest.raises(FormatError, match=words) as raised:
        read_exported(text)
    assert raised.value.fix is not None
