"""How an audit is shown: the positions in a table, below it the findings, last the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from eo_listener.audit.advice import commits_at_once
from eo_listener.audit.evidence import LogFacts
from eo_listener.audit.position_finding import (
    AuditOutcome,
    PositionFinding,
    PositionFindingKind,
    Severity,
)
from eo_listener.audit.positions import Positions
from eo_listener.cli.options import cell, console, named, new_table
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.offsets import TopicPartition

ROWS: Final = 20
"""How many partitions a person is shown."""
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
            **self.partition._asdict(),
            "log": log
            and {
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
                    "offset": head and head.range.until,
                    "batch": head and head.batch_id,
                    "query_id": head and head.query_id,
                    "run_id": head and head.run_id,
                    "topic_id": head and head.topic_id,
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


def show(positions: Positions, result: AuditOutcome) -> None:
    """Print it; lines that hold commands are left whole."""
    out = console()
    rows = list(side_by_side(positions))
    if rows:
        out.print(_table(positions, rows, result))
        remaining = len(rows) - ROWS
        if remaining > 0:
            out.print(Text(f"and {remaining} more partitions; --json has them all"))
    for finding in result.findings:
        for line in _lines(finding):
            out.print(line, soft_wrap=True)
    style = "red" if result.to_act_on else "green"
    out.print(Text(f"verdict: {result.verdict}", style=f"bold {style}"), soft_wrap=True)


def _lines(finding: PositionFinding) -> Iterator[Text]:
    severity = Text(finding.severity.value, style=_COLOURS[finding.severity])
    yield Text.assemble(severity, "  ", named(f"{finding.about}: {finding.what}"))
    if finding.matters or finding.kind is PositionFindingKind.GROUP_DRAINED:
        for name, text in (("cause", finding.cause), ("fix", finding.fix)):
            if text:
                yield named(f"  {name}: {text}")
        if commits_at_once(finding.fix):
            yield Text("  this commits immediately: `eo-listener follow --once` has no dry run")


def shown_rows(
    rows: Sequence[PartitionPositions], result: AuditOutcome
) -> list[tuple[PartitionPositions, bool]]:
    """Those that a person is shown, in order, and whether something was found of them."""
    wrong = {tp for finding in result.to_act_on for tp in finding.ranges}
    first = sorted(rows, key=lambda row: (row.partition not in wrong, row.partition))[:ROWS]
    return [(row, row.partition in wrong) for row in sorted(first, key=lambda row: row.partition)]


def headings(positions: Positions) -> list[str]:
    """Return the headings of `cells`."""
    return [
        "partition",
        *(["log"] if positions.source is not None else []),
        *(["checkpoint"] if positions.checkpoint is not None else []),
        *(f"group {group.name}" for group in positions.groups),
        *(ledger.key.sink for ledger in positions.ledgers),
    ]


def _table(positions: Positions, rows: list[PartitionPositions], result: AuditOutcome) -> Table:
    """Partitions that something was found of come first."""
    names = headings(positions)
    lines = (
        [Text(text, style="red" if is_wrong else "") for text in cells(positions, row)]
        for row, is_wrong in shown_rows(rows, result)
    )
    return new_table(names, names[1:], lines)


def cells(positions: Positions, row: PartitionPositions) -> Iterator[str]:
    """Yield a partition's position in each of the places that were read."""
    yield str(row.partition)
    if positions.source is not None:
        yield "-" if row.log is None else _log(row.log)
    if positions.checkpoint is not None:
        planned = row.planned if row.planned != row.committed else None
        yield cell(row.committed) + ("" if planned is None else f" ({planned})")
    for offset in row.groups.values():
        yield cell(offset)
    for _, head in row.ledgers:
        yield cell(head and head.range.until)


def _log(log: LogFacts) -> str:
    """Format start and end; with the last stable offset between them if transactions are open."""
    if log.stable < log.end:
        return f"{log.start}..{log.stable}..{log.end}"
    return f"{log.start}..{log.end}"
