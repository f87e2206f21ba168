"""`eo-listener audit`: compares source log, checkpoint, groups and ledgers."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from eo_listener.audit.advice import Advice
from eo_listener.audit.evidence import LogFacts
from eo_listener.audit.group_checks import check_drained, has_moved
from eo_listener.audit.position_finding import (
    AuditOutcome,
    PositionFinding,
    PositionFindingKind,
    outcome,
)
from eo_listener.audit.position_judge import judge_positions, judge_rows, not_read
from eo_listener.audit.positions import LedgerPositions, Positions, Unclaimed
from eo_listener.audit.proof import AuditFinding, AuditFindingKind, prove, still_unclaimed
from eo_listener.cli import completion
from eo_listener.cli.options import (
    Json,
    KafkaProperties,
    OptionalServers,
    Storage,
    as_properties,
    cell,
    console,
    named,
    new_table,
    picked,
    print_json,
    require_cluster,
    require_names,
    storage_options,
    with_options,
)
from eo_listener.cli.position_reader import (
    AuditRequest,
    PositionReader,
    applied_ranges,
    claims,
    merged,
)
from eo_listener.cli.spark_options import SparkConf, spark_for, spark_settings
from eo_listener.errors import EoListenerError, ExitCode, MissingExtraError, SettingsError
from eo_listener.model.argument_checks import require_seconds
from eo_listener.model.check_finding import Severity
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.model.protocols import LedgerReader
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.ledger_address import FORMS, LedgerAddress
from eo_listener.spark.checkpoint.location import shown

EXAMPLE = (
    "Example: eo-listener audit --checkpoint /flights-c -b localhost:9092 -g flights-to-pg "
    "--ledger postgresql://host/db"
)

_COLUMNS: Final = "topic,partition,offset"
_PAUSE: Final = 1.0  # seconds between two readings of --wait
_SECOND: Final = "drained: reading again"
_NO_GROUP: Final = "the groups could not be read"


@dataclass(frozen=True, kw_only=True, repr=False)
class AuditOptions:
    """The options that name the places whose positions an audit compares."""

    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint", "-c", help="The query's checkpointLocation: a folder or a URL."
        ),
    ] = None
    groups: Annotated[
        list[str] | None,
        typer.Option("-g", "--group", help="A group that the query commits to; repeatable."),
    ] = None
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "-t", "--topic", help="A topic to read in addition to the query's topics; repeatable."
        ),
    ] = None
    uncommitted: Annotated[
        list[str] | None,
        typer.Option(help="A topic that the query does not commit to any group; repeatable."),
    ] = None
    ledgers: Annotated[
        list[str] | None,
        typer.Option(
            "--ledger",
            autocompletion=completion.ledger,
            help=f"A sink's ledger: {FORMS}; repeatable. For PostgreSQL's password use PGPASSWORD "
            "or ~/.pgpass.",
        ),
    ] = None
    schema: Annotated[str | None, typer.Option(help="The schema of PostgreSQL's ledgers.")] = None
    spark_conf: SparkConf = None
    query: Annotated[
        str | None,
        typer.Option(
            help="The query's name in the ledger: its queryName, or name= of exactly_once."
        ),
    ] = None
    sink: Annotated[
        str | None, typer.Option(help="Compare only this sink of the ledger, by its name.")
    ] = None
    storage: Storage = None

    def request(
        self, properties: Mapping[str, str] | None, *, counts_rows: bool = False
    ) -> AuditRequest:
        """Return the request for an audit. Raises SettingsError."""
        require_names("group", self.groups or ())
        require_names("topic", (*(self.topics or ()), *(self.uncommitted or ())))
        return AuditRequest(
            properties=properties,
            checkpoint=self.checkpoint,
            storage=storage_options(self.storage or ()),
            groups=tuple(dict.fromkeys(self.groups or ())),
            topics=tuple(self.topics or ()),
            ledgers=list(dict.fromkeys(map(LedgerAddress.parse, self.ledgers or ()))),
            schema=self.schema,
            spark=spark_settings(self.spark_conf or ()),
            query=self.query,
            sink=self.sink,
            uncommitted=frozenset(self.uncommitted or ()),
            counts_rows=counts_rows,
        )


@with_options
def audit(
    *,
    servers: OptionalServers = None,
    places: AuditOptions,
    rows: Annotated[
        bool, typer.Option("--rows", help="Count the rows of the sinks' tables by source offset.")
    ] = False,
    columns: Annotated[
        str, typer.Option(help="With --rows: the columns of topic, partition and offset.")
    ] = _COLUMNS,
    read_committed: Annotated[
        bool,
        typer.Option(
            "--read-committed", help="With --rows: the query reads committed records only."
        ),
    ] = False,
    wait: Annotated[
        float | None,
        typer.Option(
            help="Seconds to wait until the groups are drained (lag 0, no open transaction, no "
            "members, no batch in doubt, two equal readings); then print how the next consumer "
            "starts."
        ),
    ] = None,
    properties: KafkaProperties = None,
    as_json: Json = False,
) -> None:
    """Show where a query stands, and what is lost or doubled.

    Compares those of these places that the options name, at least one: the source's log, the
    checkpoint, consumer groups and the sinks' ledgers. Only --rows finds rows that are missing from
    a table, or in it twice, although its ledger is right. Also shows the commands that repair what
    was found. Changes nothing; the query may run meanwhile. Exit status: 1 if there is something to
    act on, 3 if something could not be read.
    """
    if not (places.checkpoint or places.groups or places.ledgers or places.topics):
        raise SettingsError(
            "the command names nothing to compare",
            fix="Name at least one: --checkpoint FOLDER, -b HOST:PORT -g GROUP, --ledger ADDRESS",
        )
    require_cluster(servers, places.groups, places.topics, properties)
    client = None if servers is None else as_properties(servers, properties)
    request = places.request(client, counts_rows=rows)
    if wait is not None:
        if not (servers and places.groups):
            raise SettingsError(
                "--wait needs a cluster and the groups to wait for", fix="Add -b HOST:PORT -g GROUP"
            )
        wait = require_seconds("--wait", wait, least=0.0)
    origin = _origin_columns(columns) if rows else None
    _report(request, origin, read_committed=read_committed, wait=wait, as_json=as_json)


def advice_for(request: AuditRequest) -> Advice:
    """Return an Advice whose commands repeat the cluster, checkpoint and schema of `request`."""
    return Advice(
        cluster=request.cluster,
        checkpoint=None if request.checkpoint is None else shown(request.checkpoint),
        schema=request.schema,
    )


def _origin_columns(columns: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in columns.split(","))
    if len(names) != len(_COLUMNS.split(",")) or "" in names:
        raise SettingsError(
            f"--columns must name three columns, got {columns!r}",
            fix=f"Name the columns of topic, partition and offset: --columns {_COLUMNS}",
        )
    return names


def _report(
    request: AuditRequest,
    columns: Sequence[str] | None,
    *,
    read_committed: bool,
    wait: float | None,
    as_json: bool,
) -> None:
    """Read and judge the positions, print the findings, and exit with the code for them."""
    advice = advice_for(request)
    deadline = time.monotonic() + (wait or 0.0)
    before: Positions | None = None
    shown: list[str] = []
    with closing(spark_for(request.ledgers, request.spark)) as spark:
        while True:
            with closing(PositionReader(request, spark)) as reader:
                positions = reader.read()
                groups = () if wait is None else positions.groups
                unread = {group.name: reader.unread(group, positions) for group in groups}
                findings = [*judge_positions(positions, advice), *reader.failures]
                drained: list[PositionFinding] = []
                if wait is not None:
                    drained = _drained(positions, unread, findings, advice, before)
                    waiting = [f"{each.about}: {each.what}" for each in drained if each.matters]
                    in_time = time.monotonic() + _PAUSE < deadline
                    if before is None or ((waiting or not drained) and in_time):
                        progress = waiting or [_SECOND if drained else _NO_GROUP]
                        if progress != shown:
                            _show_progress(progress)
                        before, shown = positions, progress
                        time.sleep(_PAUSE)
                        continue
                    findings += drained
                if columns is not None:
                    unclaimed: Unclaimed = {}
                    rows = list(
                        _rows(
                            *(reader, positions, columns, advice, unclaimed),
                            read_committed=read_committed,
                        )
                    )
                    # A ledger may be behind its rows; these are not lost.
                    beside_rows = judge_positions(positions.with_rows(unclaimed), advice)
                    findings = [*beside_rows, *reader.failures, *drained, *rows]
                break
    result = outcome(
        findings, compared=positions.compared, uncounted_rows=columns is None and positions.has_rows
    )
    if as_json:
        print_json(document(positions, result))
    else:
        show(positions, result)
    if not result.complete:
        raise typer.Exit(ExitCode.UNREACHABLE)
    if result.to_act_on:
        raise typer.Exit(ExitCode.FOUND)


def _drained(
    positions: Positions,
    unread: Mapping[str, Collection[TopicPartition]],
    findings: Sequence[PositionFinding],
    advice: Advice,
    before: Positions | None,
) -> list[PositionFinding]:
    """Return a finding for each group: drained or not; `before` is the previous reading."""
    return [
        check_drained(
            positions,
            group,
            unread[group.name],
            findings,
            advice,
            moving=before is not None and has_moved(before, positions, group.name),
        )
        for group in positions.groups
    ]


def _show_progress(waiting: Sequence[str]) -> None:
    print(f"waiting: {named('; '.join(waiting)).plain}", file=sys.stderr, flush=True)


def _rows(
    reader: PositionReader,
    positions: Positions,
    columns: Sequence[str],
    advice: Advice,
    unclaimed: Unclaimed,
    *,
    read_committed: bool,
) -> Iterator[PositionFinding]:
    """Yield the findings about rows; count each table once, even if several queries write to it.

    Adds to `unclaimed`, by store and sink, the offsets of rows that no ledger has.
    """
    if reader.logs is None:
        error = SettingsError(
            "rows cannot be counted without the source's log",
            cause="Kafka's log explains the rows that a table lacks",
            fix="Add -b HOST:PORT; if you gave it, see the finding about the cluster",
        )
        yield not_read("rows", error)
        return
    for store in positions.stores:
        for sink in sorted({ledger.key.sink for ledger in store.ledgers}):
            ledger = next(candidate for candidate in store.ledgers if candidate.key.sink == sink)
            try:
                proof, counted = _proof(reader, ledger, columns, read_committed=read_committed)
            except MissingExtraError:
                raise
            except EoListenerError as error:
                yield not_read(f"rows of {sink}", error)
                continue
            extra = unclaimed[store.store, sink] = {}
            for finding in proof:
                if finding.kind is AuditFindingKind.UNCLAIMED:
                    extra[finding.partition] = (*extra.get(finding.partition, ()), finding.range)
            yield from judge_rows(ledger, sink, proof, advice, counted.rows, counted.without)


def _proof(
    reader: PositionReader, ledger: LedgerPositions, columns: Sequence[str], *, read_committed: bool
) -> tuple[list[AuditFinding], _Counted]:
    """Return the gap proof of a sink's table, and the counter of its rows."""
    store: LedgerReader = reader.readers[ledger.store]
    sink = ledger.key.sink
    counted = _Counted(store.row_origins(sink, columns))
    assert reader.logs is not None  # noqa: S101  # checked by the caller
    applied = list(applied_ranges(store, sink))
    logs = reader.logs.facts(sorted({tp for tp, _ in applied}))
    ids = {tp.topic: log.topic_id for tp, log in logs.items()}
    findings = prove(merged(applied, ids), counted, reader.logs, read_committed=read_committed)
    return list(still_unclaimed(findings, claims(store, sink, ids))), counted


class _Counted:
    """Yields a table's rows to the gap proof and counts them; skips rows that lack a value."""

    def __init__(self, rows: Iterator[tuple[str, int, int]]) -> None:
        self._rows = rows
        self.rows = 0
        self.without = 0

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        for row in self._rows:
            self.rows += 1
            if None in row:
                self.without += 1
            else:
                yield row


def document(positions: Positions, result: AuditOutcome) -> dict[str, object]:
    """Return an audit as a JSON document."""
    return {**result.document(), "partitions": [row.document() for row in side_by_side(positions)]}


ROWS: Final = 20
"""The maximum number of partitions in a printed table."""
COLOURS: Final = {
    Severity.FINE: "green",
    Severity.NOTE: "",
    Severity.WARNING: "yellow",
    Severity.PROBLEM: "red",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPositions:
    """The positions of one partition in the log, the checkpoint, the groups and the ledgers."""

    partition: TopicPartition
    log: LogFacts | None
    committed: int | None
    planned: int | None
    groups: Mapping[str, int | None]
    ledgers: tuple[tuple[LedgerKey, Head | None], ...]

    def document(self) -> dict[str, Any]:
        """Return the positions as a JSON document."""
        return {
            **self.partition._asdict(),
            "log": self.log and picked(self.log, "start", "stable", "end", "topic_id"),
            **picked(self, "committed", "planned"),
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
    """Yield, in order, the positions of each partition that any place has."""
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
    """Print an audit; lines that may contain commands are not wrapped."""
    out = console()
    rows = list(side_by_side(positions))
    if rows:
        out.print(_table(positions, rows, result))
        if any(_in_doubt(row) is not None for row, _ in shown_rows(rows, result)):
            out.print(Text("(in parentheses: the end of the batch that is planned, not committed)"))
        remaining = len(rows) - ROWS
        if remaining > 0:
            out.print(Text(f"and {remaining} more partitions; --json has them all"))
    for finding in result.findings:
        for line in _lines(finding):
            out.print(line, soft_wrap=True)
    style = "red" if result.to_act_on else "green"
    out.print(Text(f"verdict: {result.verdict}", style=f"bold {style}"), soft_wrap=True)


def _lines(finding: PositionFinding) -> Iterator[Text]:
    severity = Text(finding.severity.value, style=COLOURS[finding.severity])
    yield Text.assemble(severity, "  ", named(f"{finding.about}: {finding.what}"))
    if finding.matters or finding.kind is PositionFindingKind.GROUP_DRAINED:
        for name, text in (("cause", finding.cause), ("fix", finding.fix)):
            if text:
                yield named(f"  {name}: {text}")


def shown_rows(
    rows: Sequence[PartitionPositions], result: AuditOutcome
) -> list[tuple[PartitionPositions, bool]]:
    """Return the partitions to print, in order, each with True if it has a finding to act on."""
    wrong = {tp for finding in result.to_act_on for tp in finding.ranges}
    first = sorted(rows, key=lambda row: (row.partition not in wrong, row.partition))[:ROWS]
    return [(row, row.partition in wrong) for row in sorted(first, key=lambda row: row.partition)]


def headings(positions: Positions) -> list[str]:
    """Return the headings of the columns that `cells` fills."""
    return [
        "partition",
        *(["log"] if positions.source is not None else []),
        *(["checkpoint"] if positions.checkpoint is not None else []),
        *(f"group {group.name}" for group in positions.groups),
        *(ledger.key.sink for ledger in positions.ledgers),
    ]


def _table(positions: Positions, rows: list[PartitionPositions], result: AuditOutcome) -> Table:
    """Return the table of positions; rows with a finding to act on are red."""
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
        planned = _in_doubt(row)
        yield cell(row.committed) + ("" if planned is None else f" ({planned})")
    for offset in row.groups.values():
        yield cell(offset)
    for _, head in row.ledgers:
        yield cell(head and head.range.until)


def _in_doubt(row: PartitionPositions) -> int | None:
    """Return the end of the batch in doubt, or None if no such batch reads the partition."""
    return row.planned if row.planned != row.committed else None


def _log(log: LogFacts) -> str:
    """Format a log's start and end, with the last stable offset if transactions are open."""
    if log.stable < log.end:
        return f"{log.start}..{log.stable}..{log.end}"
    return f"{log.start}..{log.end}"
