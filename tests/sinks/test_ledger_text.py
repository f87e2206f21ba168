"""The ledger of a sink and query as one text: what comes back, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eo_listener.errors import FormatError
from eo_listener.model.counted_sources import BATCHES
from eo_listener.model.ledger import Head
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.ledger_text import LedgerText
from eo_listener.testing.made_up_entries import HOSTILE, QUERY, entry_of, heads_of

FAR = 2**62
TP = TopicPartition("flights", 0)
WRITTEN = LedgerText(QUERY, 7, heads_of(entry_of({}, {TP: OffsetRange(3, 9)})))

heads = st.builds(
    Head,
    range=st.tuples(st.integers(0, FAR), st.integers(0, FAR)).map(
        lambda two: OffsetRange(min(two), max(two))
    ),
    topic_id=st.none() | st.text(),
    query_id=st.text(),
    run_id=st.text(),
    batch_id=st.integers(0, FAR),
)
partitions = st.builds(TopicPartition, st.text(), st.integers(0, 10_000)) | st.just(BATCHES)


@given(st.text(), st.integers(1, FAR), st.dictionaries(partitions, heads))
def test_a_ledger_comes_back(
    query: str, number: int, by_partition: dict[TopicPartition, Head]
) -> None:
    """With any names and offsets, in ASCII, and equal ledgers as equal texts."""
    ledger = LedgerText(query, number, by_partition)
    text = ledger.encode()
    assert LedgerText.decode(text) == ledger
    assert LedgerText.query_of(text) == query
    assert text.isascii()
    turned = dict(reversed(by_partition.items()))
    assert LedgerText(query, number, turned).encode() == text


def test_a_thousand_partitions_take_some_kilobytes() -> None:
    """The text goes into metadata that is written with each commit."""
    ranges = {TopicPartition("flights", at): OffsetRange(10**9, 10**9 + 1) for at in range(1000)}
    entry = entry_of({}, ranges, batch_id=10**6, run_id="0" * 36)
    assert len(LedgerText(QUERY, 1, heads_of(entry)).encode()) < 32_000


def _changed(change: Callable[[dict[str, Any]], object]) -> str:
    given = json.loads(WRITTEN.encode())
    change(given)
    return json.dumps(given)


def _set(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda given: given.__setitem__(name, value)


def _row(*row: object) -> Callable[[dict[str, Any]], object]:
    return lambda given: given["heads"].__setitem__("flights", [row])


@pytest.mark.parametrize("text", [*HOSTILE, "", "null", "[]", "{}", '{"v":1}', '{"v":2}'])
def test_other_texts_are_refused(text: str) -> None:
    """What is no ledger of this format is an error, and never an empty ledger."""
    with pytest.raises(FormatError, match="not have format 1") as refused:
        LedgerText.decode(text)
    with pytest.raises(FormatError, match="not have format 1"):
        LedgerText.query_of(text)
    assert "newer release" in str(refused.value.cause)


@pytest.mark.parametrize(
    "change",
    [
        _set("v", 2),
        _set("more", 0),
        _set("query", None),
        _set("number", 0),
        _set("number", "7"),
        _set("number", True),
        _set("moved", []),
        _set("moved", [["q", "r", 0]]),
        _set("moved", [["q", None, 0, None]]),
        _set("moved", [["q", "r", -1, None]]),
        _set("moved", [["q", "r", 0, 5]]),
        _set("heads", []),
        _set("heads", {"flights": 5}),
        lambda given: given.pop("heads"),
        _row(0, 3, 9),
        _row(0, 3, 9, -1),
        _row(0, 3, 9, 1),
        _row(0, 9, 3, 0),
        _row(0, -3, 9, 0),
        _row(0, 3.0, 9, 0),
        _row(0, 3, "9", 0),
        _row(True, 3, 9, 0),
        _set("heads", {"flights": [[0, 3, 9, 0], [0, 3, 9, 0]]}),
    ],
)
def test_a_changed_text_is_refused(change: Callable[[dict[str, Any]], object]) -> None:
    """A part that is missing, of another kind, or that contradicts another."""
    assert LedgerText.decode(_changed(lambda given: given)) == WRITTEN
    with pytest.raises(FormatError):
        LedgerText.decode(_changed(change))
