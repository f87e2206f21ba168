"""What is said of a store without a ledger of the query, or with several. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from eo_listener.audit.advice import FROM_EARLIEST, Advice
from eo_listener.audit.position_finding import PositionFinding, PositionFindingKind, Severity
from eo_listener.audit.positions import LedgerPositions, Positions, StorePositions
from eo_listener.model.errors import few
from eo_listener.model.ledger import LedgerKey


def no_ledger(store: StorePositions, positions: Positions, advice: Advice) -> PositionFinding:
    """Say why a store has no ledger that is taken for that of the query."""
    wanted = "the query" if positions.query is None else f"query {positions.query!r}"
    if store.renamed:
        key = store.renamed[0]
        return PositionFindingKind.LEDGER_RENAMED.finding(
            store.store,
            f"its ledger has nothing of {wanted}, and has heads of this checkpoint under "
            f"query {key.query!r}, sink {key.sink!r}",
            cause="the name that was asked for is wrong; or the query, its name= or the sink's "
            "table was renamed",
            fix=_carried_over(store, key, positions, advice),
        )
    others = few(f"query {key.query!r}, sink {key.sink!r}" for key in store.others)
    if positions.checkpoint is not None and positions.checkpoint.has_done_nothing:
        return PositionFindingKind.LEDGER_EMPTY.finding(
            severity=Severity.NOTE,
            about=store.store,
            what=f"its ledger has nothing of {wanted}, which has committed no batch yet"
            + (f"; it has {others}" if others else ""),
        )
    return PositionFindingKind.LEDGER_EMPTY.finding(
        store.store,
        f"its ledger has nothing of {wanted}"
        + (f"; it has {others}" if others else ": it is empty"),
        cause="it is the ledger of other queries, the name is another one, or the store was "
        "emptied or restored from a copy older than the query",
        fix="name the query as the ledger does: --query NAME; or restore the store; or, with an "
        f"empty table, {FROM_EARLIEST}",
    )


def other_names(
    ledger: LedgerPositions, store: StorePositions, positions: Positions
) -> Iterator[PositionFinding]:
    """Say under which other names the checkpoint's query id has a ledger of the same sink."""
    names = [key.query for key in store.renamed if key.sink == ledger.key.sink]
    if names and positions.query is None:
        yield PositionFindingKind.LEDGER_RENAMED.finding(
            severity=Severity.NOTE,
            about=positions.named(ledger),
            what=f"this query id has a ledger of the same sink under {few(map(repr, names))} too: "
            "it was renamed, or another query runs on a copy of its checkpoint; name the one that "
            "is meant: --query NAME",
        )


def _carried_over(
    store: StorePositions, key: LedgerKey, positions: Positions, advice: Advice
) -> str:
    back = f"give the query its old name again: exactly_once(..., name={key.query!r})"
    new = LedgerKey(positions.sink or key.sink, positions.query or key.query)
    rename = advice.rename_ledger(store.address, key, new)
    again = advice.name_ledger(key, new)
    return f"name it as the ledger does, {again}; or, where it was renamed, {rename}; or {back}"
