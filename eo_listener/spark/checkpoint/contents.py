"""Reads the contents of a checkpoint, for display: the position of its query and of each source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TypeVar

from eo_listener.offsets import Offsets
from eo_listener.spark.checkpoint.checkpoint import Batches, Checkpoint
from eo_listener.spark.checkpoint.errors import CheckpointError, FileFinding, FileFindingKind
from eo_listener.spark.checkpoint.log_files import BatchOffsets
from eo_listener.spark.checkpoint.planned_batches import distinct_sources

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContents:
    """One source of a query: its first offsets, its end, and the end of the batch in doubt.

    `initial`, `ended` and `planned` are None if no file has them. If the source is not Kafka,
    `kafka` is False, and `text` is the last offset as text.
    """

    id: str
    kafka: bool
    text: str | None
    initial: Offsets | None
    ended: Offsets | None
    planned: Offsets | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointContents:
    """The facts about a query that its checkpoint contains.

    `batch` is the requested batch, or by default the newest committed batch that can be read (None
    if there is none). `in_doubt` is the newest planned batch if it is not committed: the query
    writes that batch again at its next start. `findings` name unusable files, and files
    that Spark needs and that are missing.
    """

    query_id: str | None
    batches: Batches
    batch: BatchOffsets | None
    in_doubt: BatchOffsets | None
    sources: tuple[SourceContents, ...]
    findings: tuple[FileFinding, ...]

    def done(self, batch: BatchOffsets) -> bool:
        """Return True if `batch`, or a later batch, is committed."""
        return bool(self.batches.committed) and batch.batch <= self.batches.committed[-1]


class _Findings:
    """Collects the faults of unusable files, one for each file, so that reading can continue."""

    def __init__(self) -> None:
        self.by_file: dict[str, FileFinding] = {}

    def add(self, findings: Iterable[FileFinding]) -> None:
        self.by_file.update({finding.file: finding for finding in findings})

    def read(self, file: Callable[[], T]) -> T | None:
        try:
            return file()
        except CheckpointError as error:
            self.add([error.finding])
            return None


def read_contents(checkpoint: Checkpoint, batch: int | None = None) -> CheckpointContents:
    """Read a checkpoint, with the offsets of `batch`, or by default of the newest committed batch.

    The result reports unusable files as findings. Raises StorageError, and CheckpointError if
    `batch` has no usable file.
    """
    findings = _Findings()
    query_id = findings.read(checkpoint.query_id)
    batches = checkpoint.batches()
    last = batches.committed[-1] if batches.committed else -1
    if batch is None:
        durable = checkpoint.committed()
        findings.add(durable.findings)
        shown = durable.offsets
    else:
        shown = checkpoint.offsets(batch)
    newest = batches.planned[-1] if batches.planned else -1
    if batch is None and shown is not None and shown.batch > last:
        batches = checkpoint.batches()  # a live query has committed the batch since
        last = batches.committed[-1]
    in_doubt = None
    if batch is None and newest > last:
        in_doubt = findings.read(lambda: checkpoint.offsets(newest))
    newest_batch = in_doubt or shown
    if batch is None and newest_batch is not None and not newest_batch.continuous:
        for number in batches.needed:
            findings.read(partial(checkpoint.offsets, number))
        findings.add(map(_skipped, batches.skipped))
    sources = _sources(checkpoint, shown or in_doubt, shown, in_doubt, findings)
    return CheckpointContents(
        query_id=query_id,
        batches=batches,
        batch=shown,
        in_doubt=in_doubt,
        sources=sources,
        findings=tuple(findings.by_file.values()),
    )


def _skipped(batch: int) -> FileFinding:
    detail = f"Spark does not run batch {batch} again"
    return FileFinding(file=f"commits/{batch}", kind=FileFindingKind.MISSING, detail=detail)


def _sources(
    checkpoint: Checkpoint,
    named: BatchOffsets | None,
    ended: BatchOffsets | None,
    planned: BatchOffsets | None,
    findings: _Findings,
) -> tuple[SourceContents, ...]:
    """Return the sources of the batch `named`, each stream once."""
    if named is None:
        return ()
    folders = checkpoint.folders("sources")
    of_end, of_plan = _by_id(ended), _by_id(planned)
    contents = []
    for index, line in sorted(distinct_sources(named, of_end, folders), key=itemgetter(0)):
        newest = planned if planned is not None else named
        text = next((source.text for source in newest.sources if source.id == line.id), line.text)
        initial = findings.read(partial(checkpoint.initial, index))
        if initial is None and not line.id.isdigit():
            initial = findings.read(partial(checkpoint.initial, line.id))
        kafka = line.id in of_end or line.id in of_plan or initial is not None
        contents.append(
            SourceContents(
                id=line.id,
                kafka=kafka,
                text=None if kafka else text,
                initial=initial,
                ended=of_end.get(line.id),
                planned=of_plan.get(line.id),
            )
        )
    return tuple(contents)


def _by_id(batch: BatchOffsets | None) -> Mapping[str, Offsets]:
    return {} if batch is None else batch.kafka()
