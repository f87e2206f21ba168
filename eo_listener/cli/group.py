"""`eo-listener group`: seed, rewind, export and import consumer groups."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import Annotated, Final

import typer

from eo_listener.cli import completion
from eo_listener.cli.group_changes import LEAVE, POLICIES, ChangeOptions, change_group
from eo_listener.cli.group_origins import NamedOrigin, OriginOptions, Topics
from eo_listener.cli.options import (
    BootstrapServers,
    KafkaProperties,
    as_properties,
    require_names,
    with_options,
)
from eo_listener.errors import SettingsError, StorageError, few
from eo_listener.foreach_batch.starting_offsets.source_cluster import SourceCluster
from eo_listener.kafka.cluster_reader import ClusterReader
from eo_listener.kafka.range_reader import record_times
from eo_listener.model.offsets_file import ExportedGroup, ExportedPartition, write_csv, write_json
from eo_listener.offsets import Position, TopicPartition

app = typer.Typer(
    help="Change the offsets of a consumer group, or write them to a file. A dry run without "
    "--execute.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_TIMEOUT: Final = 60.0
Group = Annotated[str, typer.Argument(help="The consumer group to change.")]
Missing = Annotated[
    str,
    typer.Option(
        autocompletion=completion.one_of((*POLICIES, LEAVE)),
        help="For a partition without an offset in either the origin or the group: earliest, "
        "latest, fail or leave.",
    ),
]


class _Format(str, Enum):
    CSV = "csv"
    JSON = "json"


@app.command(
    epilog="Example: eo-listener group seed flights-to-pg -b localhost:9092 "
    "--from-checkpoint /data/flights-c --execute"
)
@with_options
def seed(
    *,
    group: Group,
    servers: BootstrapServers,
    properties: KafkaProperties = None,
    origin: OriginOptions,
    missing: Missing = "earliest",
    change: ChangeOptions,
) -> None:
    """Give a group offsets if it holds none, and move it forward if it is behind.

    Never takes it back: for that there is `group rewind`. Refused while the group has members, or
    moves within --watch seconds.
    """
    named = NamedOrigin(group=group, command="group seed", options=origin)
    change_group(named, as_properties(servers, properties), missing, change)


@app.command(
    epilog="Example: eo-listener group rewind flights-to-pg -b localhost:9092 "
    "--from-time 2013-01-01T05:00:00Z --execute"
)
@with_options
def rewind(
    *,
    group: Group,
    servers: BootstrapServers,
    properties: KafkaProperties = None,
    origin: OriginOptions,
    change: ChangeOptions,
) -> None:
    """Take a group back, so that records are read again.

    Partitions that are behind already are left alone. Each commit records what the group held. A
    Spark query does not begin there: it goes by its checkpoint.
    """
    named = NamedOrigin(group=group, command="group rewind", options=origin)
    change_group(named, as_properties(servers, properties), LEAVE, change, rewinds=True)


@app.command(
    name="import",
    epilog="Example: eo-listener group import flights-to-pg offsets.json -b other:9092 --by-time",
)
@with_options
def import_(
    *,
    group: Group,
    file: Annotated[Path, typer.Argument(help="A file of `group export`, or of Kafka's tool.")],
    servers: BootstrapServers,
    properties: KafkaProperties = None,
    by_time: Annotated[
        bool,
        typer.Option(
            "--by-time",
            help="Find the offsets by the times in the file: for a copy of the topics on "
            "another cluster, whose offsets differ.",
        ),
    ] = False,
    topics: Topics = None,
    missing: Missing = LEAVE,
    change: ChangeOptions,
) -> None:
    """Give a group the offsets of a file; never takes it back.

    With times, records around the position are read again and none is skipped, if the copy keeps
    the order and the times of the records (as MirrorMaker does).
    """
    options = OriginOptions(file=file, topics=topics)
    named = NamedOrigin(group=group, command="group import", options=options, by_time=by_time)
    change_group(named, as_properties(servers, properties), missing, change)


@app.command(
    epilog="Example: eo-listener group export flights-to-pg -b localhost:9092 -o offsets.csv"
)
def export(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...", help="Consumer groups.")],
    servers: BootstrapServers,
    properties: KafkaProperties = None,
    topics: Topics = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file to write. Default: print it.")
    ] = None,
    form: Annotated[
        _Format,
        typer.Option("--format", help="csv fits Kafka's tool; json also has ids and times."),
    ] = _Format.CSV,
    times: Annotated[
        bool,
        typer.Option("--times", help="Also write the times of the records: for another cluster."),
    ] = False,
) -> None:
    """Write what groups hold to a file, for `group import` or Kafka's own tool.

    That is: kafka-consumer-groups --reset-offsets --from-file FILE --group GROUP --execute

    Kafka leaves out topics that this client may not Describe. Name yours by --topic, and each of
    them is exported or said to be missing.
    """
    require_names("group", groups)
    if len(set(groups)) < len(groups):
        raise SettingsError("a group appears twice", fix="Name each group once")
    if times and form is _Format.CSV:
        raise SettingsError("CSV has no column for --times", fix="Add --format json")
    client = as_properties(servers, properties)
    require_names("topic", topics or ())
    named = frozenset(topics or ())
    with closing(ClusterReader(client)) as reader:
        reader.require_shown(named)
        partitions = tuple(tp for tp in reader.partitions() if not named or tp.topic in named)
        by_group = {group: reader.group(group, partitions, stable=True) for group in groups}
    _refuse_absent(by_group, named)
    exported = _exported(client, by_group, with_ids=form is _Format.JSON, times=times)
    text = (
        write_csv(exported)
        if form is _Format.CSV
        else write_json(exported, servers=servers, exported_at=time.time_ns() // 1_000_000)
    )
    _write(output, text)


def _refuse_absent(
    by_group: Mapping[str, Mapping[TopicPartition, Position]], topics_named: frozenset[str]
) -> None:
    """Raise for a group, and for a topic, of which there is nothing to export."""
    groups = [group for group, positions in by_group.items() if not positions]
    topics = topics_named - {tp.topic for positions in by_group.values() for tp in positions}
    if groups or topics:
        of_topics = f" of {few(sorted(topics or topics_named))}" if topics_named else ""
        raise SettingsError(
            f"group {few(groups or by_group)} holds no offsets{of_topics}",
            cause="they expired, nobody has committed any, or the name is wrong",
            fix="Run eo-listener status GROUP -b SERVERS to see what it holds",
        )


def _exported(
    properties: Mapping[str, str],
    by_group: Mapping[str, Mapping[TopicPartition, Position]],
    *,
    with_ids: bool,
    times: bool,
) -> list[ExportedGroup]:
    """Return the groups with their metadata, and the requested ids of topics and times."""
    ids: Mapping[str, str] = {}
    if with_ids:
        with closing(SourceCluster(properties)) as cluster:
            every = {tp for positions in by_group.values() for tp in positions}
            ids = cluster.snapshot(every).topic_ids
    exported = []
    for group, positions in by_group.items():
        offsets = {tp: position.offset for tp, position in positions.items()}
        written = record_times(properties, offsets, timeout=_TIMEOUT) if times else {}
        partitions = tuple(
            ExportedPartition(
                partition=tp,
                offset=position.offset,
                topic_id=ids.get(tp.topic),
                timestamp=written.get(tp),
                metadata=position.metadata,
            )
            for tp, position in sorted(positions.items())
        )
        exported.append(ExportedGroup(group=group, partitions=partitions))
    return exported


def _write(output: Path | None, text: str) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        _replace(output.resolve(strict=output.is_symlink()), text)
    except (OSError, RuntimeError) as error:  # the latter for links in a circle, up to Python 3.12
        reason = error.strerror if isinstance(error, OSError) else "its symbolic links form a loop"
        raise StorageError(
            f"the file {output} cannot be written: {reason}",
            fix="Check its folder and permissions",
        ) from None


def _replace(file: Path, text: str) -> None:
    """Write a file whole or not at all: CSV that is cut off cannot be told from a whole one."""
    if file.exists() and not file.is_file():  # such as /dev/stdout
        file.write_text(text, encoding="utf-8")
        return
    written = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with written.open("x", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        if file.exists():
            written.chmod(file.stat().st_mode)
        written.replace(file)
    finally:
        written.unlink(missing_ok=True)
