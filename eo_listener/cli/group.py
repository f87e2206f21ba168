"""`eo-listener group`: seed, rewind, export and import consumer groups."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from eo_listener.cli import completion
from eo_listener.cli.group_origins import NamedOrigin, OriginOptions, Topics
from eo_listener.cli.options import (
    BootstrapServers,
    Execute,
    Json,
    KafkaProperties,
    as_properties,
    console,
    named,
    print_json,
    print_line,
    require_names,
    subcommands,
    table_of,
    with_options,
)
from eo_listener.commit.groups.group_change import (
    Direction,
    GroupChange,
    GroupOutcome,
    PartitionChange,
)
from eo_listener.errors import GuardError, SettingsError, StorageError, counted, few
from eo_listener.foreach_batch.starting_offsets.resolve import (
    Origin,
    Policy,
    Recreated,
    choose_for_group,
)
from eo_listener.foreach_batch.starting_offsets.source_cluster import SourceCluster
from eo_listener.kafka.group_repair import GroupRepair
from eo_listener.kafka.logs import ClusterReader
from eo_listener.kafka.range_reader import record_times
from eo_listener.model.argument_checks import choice, require_one_of, require_seconds
from eo_listener.model.offsets_file import ExportedGroup, ExportedPartition, write_csv, write_json
from eo_listener.offsets import Position, TopicPartition

LEAVE: Final = "leave"
POLICIES: Final = tuple(policy.value for policy in Policy)
_ARGUMENT: Final = re.compile(r'\b(missing|out_of_range|recreated)="(\w+)"')


@dataclass(frozen=True, kw_only=True)
class ChangeOptions:
    """The options that all commands that change a group share."""

    out_of_range: Annotated[
        str,
        typer.Option(
            autocompletion=completion.one_of(POLICIES),
            help="For an offset outside the log: earliest, latest or fail.",
        ),
    ] = "fail"
    recreated: Annotated[
        str,
        typer.Option(
            "--recreated",
            autocompletion=completion.one_of(policy.value for policy in Recreated),
            help="For a topic recreated after its offsets were recorded: earliest (its start) or "
            "fail.",
        ),
    ] = "fail"
    watch: Annotated[
        float,
        typer.Option(
            help="With --execute: watch the group for this many seconds first, and change it "
            "only if nobody else has changed it."
        ),
    ] = 10.0
    execute: Execute = False
    as_json: Json = False

    def chooser(self, missing: str) -> Callable[..., dict[TopicPartition, int]]:
        """Return `choose_for_group` with the policies from the options. Raises SettingsError."""
        require_one_of("--missing", missing, [*POLICIES, LEAVE])
        return partial(
            choose_for_group,
            missing=None if missing == LEAVE else Policy(missing),
            out_of_range=choice(Policy, "--out-of-range", self.out_of_range),
            recreated=choice(Recreated, "--recreated", self.recreated),
        )


def change_group(
    origin_named: NamedOrigin,
    properties: Mapping[str, str],
    missing: str,
    options: ChangeOptions,
    *,
    rewinds: bool = False,
) -> None:
    """Read the origin, plan the change, commit it with --execute, and print the change.

    `missing` is the policy for a partition that neither the origin nor the group has.
    """
    choose = options.chooser(missing)
    require_names("group", [origin_named.group])
    watch = require_seconds("--watch", options.watch, least=0.0)
    with (
        closing(SourceCluster(properties)) as cluster,
        closing(GroupRepair(properties, origin_named.group)) as repair,
    ):
        repair.refuse_members()
        positions = repair.offsets()
        origin, author = origin_named.read(cluster, positions, properties)
        offsets = _new_offsets(cluster, origin, positions, choose)
        change = GroupChange.plan(origin_named.group, positions, offsets, author, rewinds=rewinds)
        outcome: GroupOutcome | None = None
        if options.execute and change.positions():
            repair.refuse_moving(change, watch)
            outcome = repair.commit(change)
    if options.as_json:
        print_json(_document(origin, change, executed=options.execute, outcome=outcome))
    else:
        _print(origin, change, executed=options.execute, outcome=outcome)
    if outcome is not None:
        outcome.require_all()


def _new_offsets(
    cluster: SourceCluster,
    origin: Origin,
    positions: Mapping[TopicPartition, Position],
    choose: Callable[..., dict[TopicPartition, int]],
) -> dict[TopicPartition, int]:
    if not origin.offsets:
        raise SettingsError(
            f"{origin.label} has no offsets",
            fix="Name a ledger, group, checkpoint or time that has offsets",
        )
    topics = {tp.topic for tp in origin.offsets}
    partitions = [tp for tp in cluster.partitions(None) if tp.topic in topics]
    try:
        return choose(origin, partitions, positions, cluster.snapshot(partitions))
    except (GuardError, SettingsError) as error:
        error.fix = _as_options(error.fix)
        raise


def _as_options(fix: str | None) -> str | None:
    """Replace arguments of `starting_offsets` in a fix by the command's options."""
    if fix is None:
        return None
    as_options = _ARGUMENT.sub(lambda match: f"--{match[1].replace('_', '-')} {match[2]}", fix)
    return as_options.replace("topics=", "--topic")


def _print(
    origin: Origin, change: GroupChange, *, executed: bool, outcome: GroupOutcome | None = None
) -> None:
    after = _after(change, outcome)
    missing = frozenset(() if outcome is None else outcome.missing)
    out = console()
    print_line(out, f"group {change.group}, by {origin.label}")
    result = "holds now" if executed else "will hold"
    rows = [
        {
            "topic": step.partition.topic,
            "partition": step.partition.partition,
            "holds": step.position and step.position.offset,
            result: after.get(step.partition),
            "": _word(change, step, missing),
            "was committed by": step.writer,
        }
        for step in change.partitions
    ]
    out.print(table_of(rows, ("partition", "holds", result)))
    for line in _notes(change):
        print_line(out, line)
    count = len(change.positions())
    partitions = counted(count, "partition")
    if not count:
        all_same = all(step.direction is Direction.SAME for step in change.partitions)
        reason = "the group is already there" if all_same else "no partition would go back"
        out.print(Text(f"nothing to commit: {reason}"))
    elif missing:
        out.print(named(f"committed: {count - len(missing)} of {partitions}"))
    elif executed:
        out.print(named(f"committed: {partitions}, and read back"))
    else:
        out.print(named(f"dry run, nothing was changed. To commit {partitions}, add --execute"))


def _word(change: GroupChange, step: PartitionChange, missing: Collection[TopicPartition]) -> str:
    if step.partition in missing:
        return "not moved"
    if not change.moves(step) and step.direction is not Direction.SAME:
        return "left as it is"
    return step.direction.value


def _after(change: GroupChange, outcome: GroupOutcome | None) -> dict[TopicPartition, int]:
    """Return the offsets that Kafka reports for the group after the change.

    In a dry run, return the offsets that the plan would give the group.
    """
    planned = {**change.group_positions, **change.positions()}
    positions = planned if outcome is None else outcome.group_positions
    return {tp: position.offset for tp, position in positions.items()}


def _notes(change: GroupChange) -> list[str]:
    notes = []
    marked = change.marked()
    if marked:
        notes.append(
            f"the guard of an earlier run withheld newer offsets of {few(marked)}: this commit "
            "removes its mark, and the next run no longer withholds them"
        )
    if change.rewinds and change.positions():
        notes.append(
            "a Spark query starts from its checkpoint, not from the group. A listener "
            "that commits to this group moves the group to its query's position again"
        )
    return notes


def _document(
    origin: Origin, change: GroupChange, *, executed: bool, outcome: GroupOutcome | None = None
) -> Mapping[str, object]:
    missing = frozenset(() if outcome is None else outcome.missing)
    return {
        "group": change.group,
        "from": origin.label,
        "executed": executed,
        "run": change.author.run_id,
        "partitions": [
            {
                **step.partition._asdict(),
                "held": step.position and step.position.offset,
                "offset": step.offset,
                "direction": step.direction.value,
                "commits": change.moves(step),
                "moved": outcome is not None
                and change.moves(step)
                and step.partition not in missing,
                "writer": None if step.writer is None else str(step.writer),
            }
            for step in change.partitions
        ],
        "notes": _notes(change),
    }


app = subcommands(
    "Change a consumer group's offsets, or write them to a file. A dry run without --execute."
)

_TIMEOUT: Final = 60.0
Group = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group to change.")]
Missing = Annotated[
    str,
    typer.Option(
        autocompletion=completion.one_of((*POLICIES, LEAVE)),
        help="For a partition without an offset in the origin and in the group: earliest, "
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
    """Give a group the offsets that it lacks, or move it forward.

    Never moves the group back (`group rewind` does). Refuses while the group has members, or if its
    offsets change within --watch seconds.
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
    """Move a group back, so that consumers read records again.

    Does not move partitions that are already behind. Each commit records the group's previous
    offset. A Spark query does not start from the group, but from its checkpoint.
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
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A file from `group export`, or from Kafka's tool."),
    ],
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
    """Give a group the offsets in a file; never move it back.

    Use --by-time for a copy of the topic that keeps the order and the times of the records, as
    MirrorMaker's copies do. Consumers then read some records again, and skip no record.
    """
    options = OriginOptions(file=file, topics=topics)
    named = NamedOrigin(group=group, command="group import", options=options, by_time=by_time)
    change_group(named, as_properties(servers, properties), missing, change)


@app.command(
    epilog="Example: eo-listener group export flights-to-pg -b localhost:9092 -o offsets.csv"
)
def export(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", help="Consumer groups.")],
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
    """Write the offsets of groups to a file.

    The file is for `group import`, or for Kafka's own tool: kafka-consumer-groups --reset-offsets
    --from-file FILE --group GROUP --execute

    Kafka leaves out topics for which this client lacks the right Describe. If you name topics with
    --topic, the command exports each topic, or reports that it is missing.
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
    """Raise SettingsError for a named group or topic that has no offsets to export."""
    groups = [group for group, positions in by_group.items() if not positions]
    topics = topics_named - {tp.topic for positions in by_group.values() for tp in positions}
    if groups or topics:
        of_topics = f" of {few(sorted(topics or topics_named))}" if topics_named else ""
        raise SettingsError(
            f"group {few(groups or by_group)} holds no offsets{of_topics}",
            cause="the offsets expired, no offset was ever committed, or the name is wrong",
            fix="Run eo-listener status GROUP -b SERVERS to see its offsets",
        )


def _exported(
    properties: Mapping[str, str],
    by_group: Mapping[str, Mapping[TopicPartition, Position]],
    *,
    with_ids: bool,
    times: bool,
) -> list[ExportedGroup]:
    """Return the groups with their metadata, and topic ids and record times if requested."""
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
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, up to Python 3.12
        reason = error.strerror if isinstance(error, OSError) else "its symbolic links form a loop"
        raise StorageError(
            f"the file {output} cannot be written: {reason}", fix="Check its folder and permissions"
        ) from None


def _replace(file: Path, text: str) -> None:
    """Write `text` to `file` completely or not at all: a truncated CSV file would look complete."""
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
