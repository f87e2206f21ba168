"""The results of an audit as plain values: a separate process reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eo_listener.audit.advice import commits_at_once
from eo_listener.audit.position_finding import Harm, PositionFinding, Severity, outcome
from eo_listener.audit.position_judge import judge_positions
from eo_listener.audit.positions import Positions
from eo_listener.cli.audit import advice_for, document
from eo_listener.cli.audit_screen import cells, headings, shown_rows, side_by_side
from eo_listener.cli.position_reader import AuditRequest, PositionReader
from eo_listener.cli.serve.last_batches import LastBatches, last_batches
from eo_listener.spark.session.local_spark import LocalSpark


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFinding:
    """One finding. `cause` and `fix` are empty if no action is needed."""

    severity: Severity
    about: str
    what: str
    cause: str
    fix: str
    at_once: bool

    @classmethod
    def of(cls, found: PositionFinding) -> ShownFinding:
        """Return the displayed part of a finding."""
        return cls(
            severity=found.severity,
            about=found.about,
            what=found.what,
            cause=found.cause if found.matters else "",
            fix=found.fix if found.matters else "",
            at_once=found.matters and commits_at_once(found.fix),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReading:
    """An audit. `rows` are some of `partitions`, with whether something was found of them.

    `document` is that of `eo-listener audit`, and the last batches. `read_tables`: no ledger in a
    table is missing.
    """

    document: dict[str, Any]
    verdict: str
    findings: tuple[ShownFinding, ...]
    headings: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], bool], ...]
    partitions: int
    ledgers: tuple[LastBatches, ...]
    lost: int
    doubled: int
    to_act_on: int
    complete: bool
    read_tables: bool


def read_audit(request: AuditRequest, spark: LocalSpark | None = None) -> AuditReading:
    """Read and judge, once; tables by this Spark. Raises EoListenerError for what cannot be asked.

    Without one a Spark is started for them, and ended.
    """
    reader = PositionReader(request, spark)
    try:
        positions = reader.read()
        ledgers = tuple(_ledgers(reader, positions))
    finally:
        reader.close()
    found = outcome([*judge_positions(positions, advice_for(request)), *reader.failures])
    rows = list(side_by_side(positions))
    last = [one.document() for one in ledgers]
    return AuditReading(
        document={**document(positions, found), "last_batches": last},
        verdict=found.verdict,
        findings=tuple(map(ShownFinding.of, found.findings)),
        headings=tuple(headings(positions)),
        rows=tuple((tuple(cells(positions, row)), bad) for row, bad in shown_rows(rows, found)),
        partitions=len(rows),
        ledgers=ledgers,
        lost=found.count(Harm.LOST),
        doubled=found.count(Harm.DOUBLED),
        to_act_on=len(found.to_act_on),
        complete=found.complete,
        read_tables=request.in_tables <= {one.address for one in positions.stores},
    )


def _ledgers(reader: PositionReader, positions: Positions) -> Sequence[LastBatches]:
    return [
        last_batches(ledger, reader.readers[ledger.store].history(ledger.key))
        for store in positions.stores
        for ledger in store.ledgers
    ]
