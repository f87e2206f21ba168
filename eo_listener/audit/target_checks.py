"""Checks if the topics that a sink writes to are the topics in its ledger. Pure.

In a database rows and ledger are one copy. A ledger in a topic can be restored, deleted or cut back
without the topics that its rows are in, and these without it.
"""

from __future__ import annotations

from eo_listener.audit.advice import FROM_EARLIEST, Advice
from eo_listener.audit.position_finding import Findings, PositionFindingKind
from eo_listener.audit.positions import LedgerPositions
from eo_listener.errors import few
from eo_listener.model.ledger_place import target_first


def check_targets(ledger: LedgerPositions, advice: Advice) -> Findings:
    """Say which targets are gone, or are other topics than those that were written."""
    if ledger.replaced:
        yield PositionFindingKind.TARGET_RECREATED.finding(
            ledger.label,
            f"topic {few(ledger.replaced)}, to which its rows went, was deleted, or deleted and "
            "recreated; its batches will be refused",
            cause="the rows that the ledger records as applied went to the older topic and "
            "were deleted with it",
            fix=_under_another_name(ledger, advice),
        )


def begin_from(ledger: LedgerPositions, advice: Advice) -> str:
    """Begin at a ledger's position; under another name if its rows are gone."""
    if ledger.replaced:
        return _under_another_name(ledger, advice)
    return advice.begin_from_ledger(ledger)


def way_on(ledger: LedgerPositions, advice: Advice, restart: str) -> str:
    """Describe how to continue if a ledger is behind the checkpoint; `restart` begins at its
    position.
    """
    if ledger.replaced:
        return _under_another_name(ledger, advice)
    if not ledger.targets:
        return restart
    return target_first(
        f"topic {few(ledger.targets)} has these records",
        all_there='exactly_once(..., on_gap="accept"), until a batch is committed',
        none_there=restart,
    )


def begin_or_restore(ledger: LedgerPositions, restart: str) -> str:
    """Describe how to continue if a ledger lacks partitions that the query has read.

    `restart` starts from it.
    """
    begins = 'exactly_once(..., on_first="accept") begins and records it'
    if not ledger.targets:
        return (
            "restore the ledger together with its store; for a sink that is new to the "
            f"query, {begins}"
        )
    return target_first(
        f"topic {few(ledger.targets)} has these records",
        all_there=f"or, if the sink is new to the query, {begins}",
        none_there=restart,
    )


def _under_another_name(ledger: LedgerPositions, advice: Advice) -> str:
    return (
        'give the sink another name, KafkaSink(..., name="NEW"), and audit it with --sink NEW. '
        f"If the topic is empty, {FROM_EARLIEST}; or, if it is a copy that matches the ledger, "
        f"{advice.begin_from_ledger(ledger)}, with the sink under its old name"
    )
