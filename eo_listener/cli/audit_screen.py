"""How an audit is shown: the positions in a table, below it the findings, last the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from eo_listener.audit.advice import commits_at_once
from eo_listener.audit.evidence import LogFacts
from eo_listener.audit.position_finding import AuditOutcome, PositionFinding, Severity
from eo_listener.audit.positions import Positions
from eo_listener.cli.options import console, named
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.model.offsets import TopicPartition

_ROWS: Final = 20  # of partitions that a person is shown
_COLOURS: Final = {
    Severity.FINE: "green",
    Severity.NOTE: "",
    Severity.WARNING: "yellow",
    Severity.PROBLEM: "red",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPositions:
    """All that is known of one partition."""

    partition: TopicPartition
    log: LogFacts | None
    committed: int | None
    planned: int | None
    groups: Mapping[str, int | None]
    ledgers: tuple[tuple[LedgerKey, Head | None], ...]

    def document(self) -> dict[str, Any]:
        """Its form in JSON."""
        log = self.log
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "log": None
            if log is None
            else {
                "start": log.start,
                "stable": log.stable,
                "end": log.end,
                "topic_id": log.topic_id,
            },
            "committed": self.committed,
            "planned": self.planned,
            "groups": dict(self.groups),
            "ledgers": [
                {
                    "sink": key.sink,
                    "query": key.query,
                    "offset": None if head is None else head.range.until,
                    "batch": None if head is None else head.batch_id,
                    "query_id": None if head is None else head.query_id,
                    "run_id": None if head is None else head.run_id,
                    "topic_id": None if head is None else head.topic_id,
                }
                for key, head in self.ledgers
            ],
        }


def side_by_side(positions: Positions) -> Iterator[PartitionPositions]:
    """Each partition that any of the four knows, in order."""
    checkpoint, source = positions.checkpoint, positions.source
    done = {} if checkpoint is None else checkpoint.done
    ahead = {} if checkpoint is None else checkpoint.ahead
    logs = {} if source is None else source.logs
    every: set[TopicPartition] = {*done, *ahead, *logs}
    for group in positions.groups:
        every |= group.after.keys()
    for ledger in positions.ledgers:
        every |= ledger.heads.keys()
    for tp in sorted(every):
        yield PartitionPositions(
            partition=tp,
            log=logs.get(tp),
            committed=done.get(tp),
            planned=ahead.get(tp),
            groups={
                group.name: group.after[tp].offset if tp in group.after else None
                for group in positions.groups
            },
            ledgers=tuple((ledger.key, ledger.heads.get(tp)) for ledger in positions.ledgers),
        )


def show(positions: Positions, found: AuditOutcome) -> None:
    """Print it; lines that hold commands are left whole."""
    out = console()
    rows = list(side_by_side(positions))
    if rows:
        out.print(_table(positions, rows, found))
        left = len(rows) - _ROWS
        if left > 0:
            out.print(Text(f"and {left} more partitions; --json has them all"))
    for finding in found.findings:
        for line in _lines(finding):
            out.print(line, soft_wrap=True)
    style = "red" if found.to_act_on else "green"
    out.print(Text(f"verdict: {found.verdict}", style=f"bold {style}"), soft_wrap=True)


def _lines(finding: PositionFinding) -> Iterator[Text]:
    severity = Text(finding.severity.value, style=_COLOURS[finding.severity])
    yield Text.assemble(severity, "  ", named(f"{finding.about}: {finding.what}"))
    if finding.matters:
        for name, text in (("cause", finding.cause), ("fix", finding.fix)):
            if text:
                yield named(f"  {name}: {text}")
        if commits_at_once(finding.fix):
            yield Text("  that commits at once: `eo-listener follow --once` has no dry run")


def _table(positions: Positions, rows: list[PartitionPositions], found: AuditOutcome) -> Table:
    """Partitions that something was found of come first."""
    wrong = {tp for finding in found.to_act_on for tp in finding.ranges}
    shown = sorted(rows, key=lambda row: (row.partition not in wrong, row.partition))[:_ROWS]
    table = Table()
    table.add_column("partition", overflow="fold")
    if positions.source is not None:
        table.add_column("log", justify="right", overflow="fold")
    if positions.checkpoint is not None:
        table.add_column("checkpoint", justify="right", overflow="fold")
    for group in positions.groups:
        table.add_column(named(f"group {group.name}"), justify="right", overflow="fold")
    for ledger in positions.ledgers:
        table.add_column(named(ledger.key.sink), justify="right", overflow="fold")
    for row in sorted(shown, key=lambda row: row.partition):
        style = "red" if row.partition in wrong else ""
        table.add_row(*(Text(cell, style=style) for cell in _cells(positions, row)))
    return table


def _cells(positions: Positions, row: PartitionPositions) -> Iterator[str]:
    yield str(row.partition)
    if positions.source is not None:
        yield "-" if row.log is None else _log(row.log)
    if positions.checkpoint is not None:
        planned = row.planned if row.planned != row.committed else None
        yield _number(row.committed) + ("" if planned is None else f" ({planned})")
    for offset in row.groups.values():
        yield _number(offset)
    for _, head in row.ledgers:
        yield "-" if head is None else str(head.range.until)


def _log(log: LogFacts) -> str:
    """Start and end; where transactions are open, the last stable offset between them."""
    if log.stable < log.end:
        return f"{log.start}..{log.stable}..{log.end}"
    return f"{log.start}..{log.end}"


def _number(offset: int | None) -> str:
    return "-" if offset is None else str(offset)
