"""`eo-listener checkpoint`: shows the contents of a query's checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from eo_listener.cli.options import (
    Json,
    Storage,
    console,
    named,
    picked,
    print_json,
    print_line,
    storage_options,
    subcommands,
    table_of,
    utc,
)
from eo_listener.errors import ExitCode, SettingsError
from eo_listener.offsets import Offsets, TopicPartition
from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from eo_listener.spark.checkpoint.contents import CheckpointContents, SourceContents, read_contents
from eo_listener.spark.checkpoint.location import Location
from eo_listener.spark.checkpoint.log_files import BatchOffsets

app = subcommands("Show the contents of a query's checkpoint; changes nothing.")


@app.command(epilog="Example: eo-listener checkpoint show s3a://bucket/flights-checkpoint")
def show(
    location: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT",
            help="The checkpoint of a query: a folder, or a URL such as s3a://bucket/folder.",
        ),
    ],
    batch: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="The offsets of this batch, committed or not. Default: the newest committed "
            "batch.",
        ),
    ] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Show batches, offsets and sources, and the batch in doubt.

    A batch in doubt is planned and not committed: the query writes it again when it starts. Exit
    status 1 if a file cannot be used, or if a file that Spark needs is missing.
    """
    checkpoint = open_checkpoint(location, storage)
    contents = read_contents(checkpoint, batch)
    if as_json:
        print_json(_document(str(checkpoint.location), contents))
    else:
        _print(str(checkpoint.location), contents)
    if contents.findings:
        raise typer.Exit(ExitCode.FOUND)


def open_checkpoint(location: str, storage: Iterable[str] | None) -> Checkpoint:
    """Return the checkpoint at `location`. Raises SettingsError, StorageError, CheckpointError."""
    checkpoint = Checkpoint(Location(location, storage_options(storage or ())))
    if not checkpoint.exists():
        raise SettingsError(
            f"no checkpoint exists at {checkpoint.location}",
            cause="the path is wrong, or the query was never started with it",
            fix="Give the query's checkpointLocation; without a scheme it is a local folder",
        )
    return checkpoint


def _print(where: str, contents: CheckpointContents) -> None:
    out = console()
    planned, committed = contents.batches.planned, contents.batches.committed
    facts = [
        ("checkpoint", where),
        ("query id", contents.query_id or "not readable"),
        ("batches", f"planned {_numbers(planned)}; committed {_numbers(committed)}"),
        (
            "batch",
            "none is committed" if contents.batch is None else _batch(contents, contents.batch),
        ),
    ]
    if contents.in_doubt is not None:
        facts.append(("in doubt", _batch(contents, contents.in_doubt)))
    for name, text in facts:
        print_line(out, f"{name:<11} {text}")
    table = _table(contents)
    if table.row_count:
        out.print(table)
    lines = [named(line) for line in _others(contents)]
    lines += (
        Text(f"{finding}. Cause: {finding.cause}", style="red") for finding in contents.findings
    )
    for line in lines:
        out.print(line, soft_wrap=True)


def _table(contents: CheckpointContents) -> Table:
    numbers = ("partition", "began at", "next offset", "in doubt up to")
    rows = [
        {"source": source.id, "topic": tp.topic}
        | dict(zip(numbers, (tp.partition, *offsets), strict=True))
        for source in contents.sources
        for tp, offsets in _partitions(source)
    ]
    if contents.in_doubt is None:
        for row in rows:
            del row["in doubt up to"]
    return table_of(rows, numbers)


def _others(contents: CheckpointContents) -> Iterator[str]:
    for source in contents.sources:
        if not source.kafka:
            text = source.text if source.text is not None else "no offset yet"
            yield f"source {source.id} is not Kafka: {text}"


def _batch(contents: CheckpointContents, batch: BatchOffsets) -> str:
    parts = [str(batch.batch)]
    if batch != contents.in_doubt and not contents.done(batch):
        parts.append("not committed")
    parts.append(f"format v{batch.version}")
    if batch.continuous:
        parts.append("an epoch of continuous processing")
    if batch.planned_at is not None:
        parts.append(f"planned {utc(batch.planned_at)}")
    if batch.watermark is not None:
        parts.append(f"watermark {utc(batch.watermark)}")
    return ", ".join(parts)


def _numbers(batches: Sequence[int]) -> str:
    """Format batches as `3 to 9`; if some of these are missing, add the number of batches."""
    if not batches:
        return "none"
    first, last = batches[0], batches[-1]
    text = str(first) if first == last else f"{first} to {last}"
    whole = len(batches) == last - first + 1
    return text if whole else f"{text} ({len(batches)} of them)"


def _partitions(source: SourceContents) -> Iterator[tuple[TopicPartition, list[int | None]]]:
    of_each = [offsets or Offsets() for offsets in (source.initial, source.ended, source.planned)]
    for tp in sorted({tp for offsets in of_each for tp in offsets}):
        yield tp, [offsets.get(tp) for offsets in of_each]


def _document(where: str, contents: CheckpointContents) -> Mapping[str, object]:
    return {
        "checkpoint": where,
        "query_id": contents.query_id,
        "planned": list(contents.batches.planned),
        "committed": list(contents.batches.committed),
        "batch": _batch_document(contents, contents.batch),
        "in_doubt": _batch_document(contents, contents.in_doubt),
        "sources": [
            {
                "id": source.id,
                "kafka": source.kafka,
                "offset": source.text,
                "partitions": [
                    {
                        **tp._asdict(),
                        "initial": initial,
                        "next_offset": ended,
                        "in_doubt_until": planned,
                    }
                    for tp, (initial, ended, planned) in _partitions(source)
                ],
            }
            for source in contents.sources
        ],
        "findings": [str(finding) for finding in contents.findings],
    }


def _batch_document(
    contents: CheckpointContents, batch: BatchOffsets | None
) -> Mapping[str, object] | None:
    if batch is None:
        return None
    return {
        **picked(batch, "batch", "continuous", "planned_at", "watermark"),
        "done": contents.done(batch),
        "format": batch.version,
    }
