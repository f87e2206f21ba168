"""Which ledgers of a store are taken for those of the query that is audited."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from eo_listener.audit.positions import CheckpointPositions
from eo_listener.cli.ledger_choice import LedgerChoice
from eo_listener.model.ledger import Head, LedgerKey, StoredLedger, TakenBack
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.testing.made_up_entries import entry_of, heads_of

TP = TopicPartition("flights", 0)
BACK = TakenBack("version 7 restored the table", "RESTORE TABLE t TO VERSION AS OF 6")
HEADS = heads_of(entry_of({}, {TP: OffsetRange(0, 10)}))
CHECKPOINT = CheckpointPositions(
    label="c",
    query_id="that-has-moved-none",
    committed=0,
    planned=0,
    done={TP: 10},
    ahead={TP: 10},
    began={TP: 0},
)


def ledger(
    query: str, heads: Mapping[TopicPartition, Head] | None = None, back: TakenBack | None = None
) -> StoredLedger:
    return StoredLedger(
        key=LedgerKey("t", query), heads=heads or {}, moved_at={}, begun=0, taken_back=back
    )


@pytest.mark.parametrize(
    ("ledgers", "chosen"),
    [
        ([ledger("a", HEADS), ledger("begun")], {"a"}),
        ([ledger("begun")], set()),
        ([ledger("a", HEADS), ledger("b", back=BACK)], {"a"}),
        ([ledger("b", back=BACK), ledger("begun")], {"b"}),
        ([ledger("b", back=BACK), ledger("c", back=BACK)], set()),
    ],
)
def test_a_ledger_without_heads(ledgers: list[StoredLedger], chosen: set[str]) -> None:
    """May be the query's where its table was taken back, and no other one may be.

    One whose first batch was begun and not finished is not: it would count as lost what is there.
    """
    choice = LedgerChoice(None, None, CHECKPOINT)
    found = choice.chosen({one.key: one for one in ledgers})
    assert {key.query for key in found} == chosen
