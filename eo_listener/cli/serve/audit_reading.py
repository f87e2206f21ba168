"""The results of an audit as plain values: a separate process reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
    def of(cls, finding: PositionFinding) -> ShownFinding:
        """Return the displayed part of a finding."""
        return cls(
            severity=finding.severity,
            about=finding.about,
            what=finding.what,
            cause=finding.cause if finding.matters else "",
            fix=finding.fix if finding.matters else "",
            at_once=finding.matters and commits_at_once(finding.fix),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReading:
    """An audit."""

    #: The document of `eo-listener audit`, with the last batches.
    document: dict[str, Any]
    verdict: str
    findings: tuple[ShownFinding, ...]
    headings: tuple[str, ...]
    #: The cells of some partitions; True marks a partition that has a finding to act on.
    rows: tuple[tuple[tuple[str, ...], bool], ...]
    partitions: int
    ledgers: tuple[LastBatches, ...]
    lost: int
    doubled: int
    to_act_on: int
    complete: bool
    #: True if no ledger in a table is missing.
    read_tables: bool


def read_audit(request: AuditRequest, spark: LocalSpark | None = None) -> AuditReading:
    """Read and judge, once; tables by this Spark. Raises EoListenerError for an impossible request.

    Without one a Spark is started for them, and ended.
    """
    reader = PositionReader(request, spark)
    try:
        positions = reader.read()
        ledgers = tuple(_ledgers(reader, positions))
    finally:
        reader.close()
    result = outcome([*judge_positions(positions, advice_for(request)), *reader.failures])
    rows = list(side_by_side(positions))
    last = [asdict(ledger) for ledger in ledgers]
    return AuditReading(
        document={**document(positions, result), "last_batches": last},
        verdict=result.verdict,
        findings=tuple(map(ShownFinding.of, result.findings)),
        headings=tuple(headings(positions)),
        rows=tuple((tuple(cells(positions, row)), bad) for row, bad in shown_rows(rows, result)),
        partitions=len(rows),
        ledgers=ledgers,
        lost=result.count(Harm.LOST),
        doubled=result.count(Harm.DOUBLED),
        to_act_on=len(result.to_act_on),
        complete=result.complete,
        read_tables=request.in_tables <= {store.address for store in positions.stores},
    )


def _ledgers(reader: PositionReader, positions: Positions) -> Sequence[LastBatches]:
    return [
        last_batches(ledger, reader.readers[ledger.store].history(ledger.key))
        for store in positions.stores
        for ledger in store.ledgers
    ]
