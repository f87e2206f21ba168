"""Runs an audit, and returns its results with the last batches of its ledgers.

The results are plain values, which can be sent between processes. `AuditProcess` runs repeated
audits in a separate process: the requests that describe groups may end the whole process while a
broker restarts (a fault of librdkafka, see `eo_listener.kafka`). Also, if a store does not answer,
ending the process ends the wait.

To read ledgers in tables, the process starts Spark once and keeps it, because the start is
expensive. If a table could not be read, the process ends together with its Spark, because a JVM
that died cannot be replaced within one process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import TimeoutError as Late
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from eo_listener.audit.intervals import size
from eo_listener.audit.position_finding import Harm, PositionFinding, outcome
from eo_listener.audit.position_judge import judge_positions
from eo_listener.audit.positions import LedgerPositions, Positions
from eo_listener.cli.audit import advice_for, cells, document, headings, shown_rows, side_by_side
from eo_listener.cli.position_reader import AuditRequest, PositionReader
from eo_listener.cli.spark_options import spark_for
from eo_listener.errors import EoListenerError, UnavailableError
from eo_listener.kafka.separate_process import SeparateProcess
from eo_listener.model.ledger import UNKNOWN_TIME, AppliedBatch, Head
from eo_listener.spark.session.local_spark import LocalSpark

BATCHES_SHOWN: Final = 5


@dataclass(slots=True, kw_only=True)
class WholeBatch:
    """One batch, summed over its partitions. A value that only a history has may be None."""

    batch: int
    run: str
    partitions: int = 0
    offsets: int = 0
    rows: int | None = None
    gap_offsets: int | None = None
    applied_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBatches:
    """The last batches of one sink and query, newest first, as the page's JSON lists them.

    `begun` is the batch that the sink has begun but not finished, or None.
    """

    store: str
    sink: str
    query: str
    begun: int | None
    batches: tuple[WholeBatch, ...]


def last_batches(
    ledger: LedgerPositions, history: Iterable[AppliedBatch], count: int = BATCHES_SHOWN
) -> LastBatches:
    """Return a ledger's last batches from its history, or from its heads if there is no history.

    The heads have each partition's last batch. A sink prunes its history to about 1,000 batches. A
    ledger in a topic records no batches: its history has only the heads before and after each
    repair, without times.
    """
    entries = list(history)
    if any(entry.applied_at == UNKNOWN_TIME for entry in entries):
        entries = []
    batches = _newest(map(_applied, entries), count) or _newest(
        map(_last, ledger.heads.values()), count
    )
    return LastBatches(
        store=ledger.store,
        sink=ledger.key.sink,
        query=ledger.key.query,
        begun=ledger.unfinished_batch,
        batches=tuple(batches),
    )


def _applied(entry: AppliedBatch) -> WholeBatch:
    return replace(
        _last(entry.head),
        rows=entry.rows,
        gap_offsets=0 if entry.gap is None else size([entry.gap]),
        applied_at=entry.applied_at,
    )


def _last(head: Head) -> WholeBatch:
    return WholeBatch(
        batch=head.batch_id, run=head.run_id, partitions=1, offsets=size([head.range])
    )


def _newest(parts: Iterable[WholeBatch], count: int) -> list[WholeBatch]:
    """Return the `count` newest batches, each summed over its partitions.

    The batches are ordered by time, because a new checkpoint counts its batches from 0.
    """
    batches: dict[tuple[int, str], WholeBatch] = {}
    for part in parts:
        key = (part.batch, part.run)
        if key in batches:
            _add(batches[key], part)
        else:
            batches[key] = part
    ordered = sorted(batches.values(), key=lambda batch: (batch.applied_at or "", batch.batch))
    return ordered[-count:][::-1]


def _add(batch: WholeBatch, part: WholeBatch) -> None:
    batch.partitions += 1
    batch.offsets += part.offsets
    if batch.gap_offsets is not None and part.gap_offsets is not None:
        batch.gap_offsets += part.gap_offsets
    if part.applied_at is not None:
        batch.applied_at = max(part.applied_at, batch.applied_at or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReading:
    """The results of one audit, as the page shows them."""

    #: The JSON document of `eo-listener audit`, with the last batches.
    document: dict[str, Any]
    verdict: str
    #: The findings, without their ranges.
    findings: tuple[PositionFinding, ...]
    headings: tuple[str, ...]
    #: The cells of the shown partitions; True marks a partition with a finding to act on.
    rows: tuple[tuple[tuple[str, ...], bool], ...]
    partitions: int
    ledgers: tuple[LastBatches, ...]
    lost: int
    doubled: int
    to_act_on: int
    complete: bool
    #: True if all requested ledgers in tables were read.
    read_tables: bool


def read_audit(request: AuditRequest, spark: LocalSpark | None = None) -> AuditReading:
    """Run one audit. Raises EoListenerError for an impossible request.

    With `spark`, the function reads tables in this Spark session. Otherwise it starts and ends a
    Spark session for the tables.
    """
    reader = PositionReader(request, spark)
    try:
        positions = reader.read()
        ledgers = tuple(_ledgers(reader, positions))
    finally:
        reader.close()
    findings = [*judge_positions(positions, advice_for(request)), *reader.failures]
    result = outcome(findings, compared=positions.compared, uncounted_rows=positions.has_rows)
    rows = list(side_by_side(positions))
    last = [asdict(ledger) for ledger in ledgers]
    return AuditReading(
        document={**document(positions, result), "last_batches": last},
        verdict=result.verdict,
        findings=tuple(replace(finding, ranges={}) for finding in result.findings),
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


_LONGEST: Final = 150.0  # seconds of an audit
_LONGEST_OF_TABLES: Final = 600.0  # with tables: Spark may have to download libraries


class AuditProcess:
    """Runs the audit of `request`, in a separate process.

    Only one thread may use an instance, but any thread may call `close`, which ends a reading that
    is in progress.
    """

    def __init__(self, request: AuditRequest, *, longest: float | None = None) -> None:
        self._request = request
        self.longest = longest or (_LONGEST_OF_TABLES if request.in_tables else _LONGEST)
        self._process = SeparateProcess()
        # The process is killed, so it cannot remove its own files and those of its Spark.
        self._folder = tempfile.TemporaryDirectory(
            prefix="eo-listener-serve-", ignore_cleanup_errors=True
        )

    def read(self) -> AuditReading:
        """Run one audit. Raises UnavailableError, with the text of the audit's own error."""
        try:
            answer = self._process.call(
                _read, self._request, self._folder.name, timeout=self.longest
            )
        except BrokenProcessPool as error:
            raise UnavailableError(
                "the process that runs the audit has ended",
                cause="librdkafka may end it while a broker restarts",
                fix="Nothing to do: the next audit starts the process again",
            ) from error
        except Late:
            raise UnavailableError(
                f"the audit has not ended within {self.longest:g} s",
                cause="a ledger, the checkpoint's storage or Kafka does not answer",
                fix="Run eo-listener audit with the same options, which waits longer",
            ) from None
        if isinstance(answer, str) or not answer.read_tables:
            self._process.close()
        if isinstance(answer, str):
            raise UnavailableError(answer)
        return answer

    def close(self) -> None:
        """End the audit's process at once; a JVM that the process has started also ends."""
        self._process.close()
        self._folder.cleanup()


class _Kept:
    """The state that the audit's process keeps between readings."""

    spark: LocalSpark | None = None


def _read(request: AuditRequest, folder: str) -> AuditReading | str:
    """Run an audit in the process; return its reading, or the text of an error.

    The function returns a text because errors cannot be sent between processes.
    """
    tempfile.tempdir = folder
    if _Kept.spark is None:
        _Kept.spark = spark_for(request.ledgers, request.spark)
    try:
        return read_audit(request, _Kept.spark)
    except EoListenerError as error:
        return str(error)
