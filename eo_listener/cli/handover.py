"""`eo-listener handover`: wait until a group is drained, and prove it to the next consumer."""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Annotated, Final

import typer

from eo_listener.cli import completion
from eo_listener.cli.checkpoint_argument import open_checkpoint
from eo_listener.cli.options import (
    BootstrapServers,
    Json,
    KafkaProperties,
    Storage,
    as_properties,
    cell,
    console,
    named,
    new_table,
    print_json,
    print_line,
    require_names,
    utc,
)
from eo_listener.commit.groups.handover import HandoverReading, PartitionReading
from eo_listener.foreach_batch.starting_offsets.origins import of_batch
from eo_listener.kafka.cluster_describer import ClusterDescriber
from eo_listener.kafka.cluster_reader import ClusterReader
from eo_listener.kafka.record_reader import RecordReader
from eo_listener.model import exit_codes
from eo_listener.model.argument_checks import require_one_of, require_seconds
from eo_listener.model.errors import SettingsError, counted, few
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.offsets_json import write_offsets
from eo_listener.model.typed_command import ClusterCommands
from eo_listener.spark.checkpoint import Checkpoint, read_contents

EXAMPLE = "Example: eo-listener handover flights-to-pg -b localhost:9092 --checkpoint /data/c"

_NEXT: Final = ("consumer", "spark")
_MOVES: Final = "the last two readings are not equal: it still moves"
_MARKERS: Final = 1000  # offsets that may be markers of transactions alone, and are read for that


def handover(
    group: Annotated[str, typer.Argument(help="The consumer group to hand over.")],
    servers: BootstrapServers,
    properties: KafkaProperties = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="The checkpoint of the Spark query that is to end: it must agree."),
    ] = None,
    storage: Storage = None,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "-t",
            "--topic",
            help="With --checkpoint: a topic that the query commits to this group, where it "
            "commits others to other groups; repeatable.",
        ),
    ] = None,
    to: Annotated[
        str,
        typer.Option(
            autocompletion=completion.one_of(_NEXT),
            help="Who goes on: a consumer of the group, or a new spark query.",
        ),
    ] = "consumer",
    interval: Annotated[float, typer.Option(help="Seconds between two readings.")] = 2.0,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for it.")] = 300.0,
    as_json: Json = False,
) -> None:
    """Wait until a group is drained and free, and print the proof and how the next one starts.

    Drained: two readings in a row, equal, without lag and without an open transaction. Free:
    without members. So stop the producers, wait for lag 0, and stop what consumes. Changes nothing.
    Exit status 1 where it does not come to that in time.
    """
    require_names("group", [group])
    require_names("topic", topics or ())
    if topics and checkpoint is None:
        raise SettingsError("--topic is for --checkpoint", fix="Add --checkpoint, or leave it out")
    require_one_of("--to", to, _NEXT)
    interval = require_seconds("--interval", interval, least=0.2)
    deadline = time.monotonic() + require_seconds("--timeout", timeout, least=0.0)
    with ExitStack() as stack:
        opened = None if checkpoint is None else open_checkpoint(checkpoint, storage)
        given = as_properties(servers, properties)
        source = _Source(stack, given, group, opened, topics or ())
        before, found = None, source.read()
        while before is None or not _is_over(before, found, deadline - interval):
            _progress(found, before)
            time.sleep(interval)
            before, found = found, source.read()
    obstacles = found.obstacles() or (() if found == before else (_MOVES,))
    commands = [] if obstacles else list(_commands(group, found, ClusterCommands.of(given), to))
    if as_json:
        print_json(_document(group, found, obstacles, commands))
    else:
        _print(group, found, obstacles, commands)
    if obstacles:
        raise typer.Exit(exit_codes.FOUND)


class _Source:
    """Reads where the group, its logs and the checkpoint are."""

    def __init__(
        self,
        stack: ExitStack,
        properties: Mapping[str, str],
        group: str,
        checkpoint: Checkpoint | None,
        topics: Collection[str],
    ) -> None:
        self._group = group
        self._checkpoint = checkpoint
        self._topics = topics
        self._reader = stack.enter_context(closing(ClusterReader(properties)))
        self._records = stack.enter_context(closing(RecordReader(properties)))
        self._describer = stack.enter_context(closing(ClusterDescriber(dict(properties))))

    def read(self) -> HandoverReading:
        """Read once; the logs after the group, so that lag 0 was true at a moment."""
        facts = self._describer.described(self._group)
        held = self._reader.group(self._group, stable=True)
        durable, in_doubt, unknown = self._durable()
        topics = {tp.topic for tp in (*held, *durable)}
        partitions = self._reader.partitions(topics)
        if topics - {tp.topic for tp in partitions}:
            self._reader.require_shown(topics)
        logs = self._records.facts(partitions)
        gone = sorted(durable.keys() - logs.keys())
        if gone and unknown is None:
            unknown = f"it has read {few(gone)}, which Kafka does not have"
        found = {}
        for tp, log in sorted(logs.items()):
            at = held[tp].offset if tp in held else None
            found[tp] = PartitionReading(
                committed=at,
                start=log.start,
                stable=log.stable,
                end=log.end,
                unread=self._has_records(tp, at, log.stable),
                durable=durable.get(tp),
            )
        return HandoverReading(
            partitions=found,
            members=tuple(map(str, facts.members)),
            in_doubt=in_doubt,
            unknown=unknown,
        )

    def _has_records(self, tp: TopicPartition, at: int | None, stable: int) -> bool:
        """Whether a consumer would be given something; what is far away is not looked up."""
        if at is None or not 0 < stable - at <= _MARKERS:
            return True
        wanted = OffsetRange(at, stable)
        return any(
            one.start < stable and one.until > at
            for one in self._records.visible(tp, (wanted,), committed=True)
        )

    def _durable(self) -> tuple[Mapping[TopicPartition, int], int | None, str | None]:
        """Where the newest committed batch ended, the one in doubt, and why that is unknown."""
        if self._checkpoint is None:
            return {}, None, None
        contents = read_contents(self._checkpoint)
        unknown = few(map(str, contents.findings)) or None
        if contents.batch is None and unknown is None:
            unknown = "no batch of it is committed"
        ends = {} if contents.batch is None else of_batch("", contents.batch).offsets
        if self._topics:
            ends = {tp: end for tp, end in ends.items() if tp.topic in self._topics}
            absent = sorted(set(self._topics) - {tp.topic for tp in ends})
            if absent:
                raise SettingsError(
                    f"the checkpoint has no offsets of topic {few(absent)}", fix="Check --topic"
                )
        return ends, None if contents.in_doubt is None else contents.in_doubt.batch, unknown


def _is_over(before: HandoverReading, found: HandoverReading, last: float) -> bool:
    """Whether two readings prove it, or there is no time for one more after `last`."""
    return (found == before and not found.obstacles()) or time.monotonic() > last


def _progress(found: HandoverReading, before: HandoverReading | None) -> None:
    """One line on stderr, where what is waited for has changed."""
    text = "; ".join(found.obstacles()) or "drained: reading once more"
    if before is None or found.obstacles() != before.obstacles():
        print(f"waiting: {named(text).plain}", file=sys.stderr, flush=True)


def _commands(
    group: str, found: HandoverReading, cluster: ClusterCommands, to: str
) -> Iterator[str]:
    if to == "spark":
        offsets = {
            tp: one.committed for tp, one in found.partitions.items() if one.committed is not None
        }
        yield f".option(\"startingOffsets\", '{write_offsets(offsets)}')"
        yield "with a new checkpointLocation"
        return
    topics = "|".join(sorted({re.escape(tp.topic) for tp in found.partitions}))
    words = ["kafka-console-consumer", "--bootstrap-server", cluster.address]
    words += ["--include", topics]
    words += ["--group", group, "--consumer-property", "auto.offset.reset=none"]
    login = " (and --consumer.config FILE, with your -X in the names of Kafka's consumer)"
    yield shlex.join(words) + (login if cluster.client else "")
    yield f"or any consumer with group.id={group} and auto.offset.reset=none"


def _print(
    group: str, found: HandoverReading, obstacles: tuple[str, ...], commands: Sequence[str]
) -> None:
    out = console()
    with_checkpoint = any(one.durable is not None for one in found.partitions.values())
    numbers = ["partition", "committed", "last stable offset", "log end"]
    numbers += ["checkpoint"] if with_checkpoint else []
    table = new_table(["topic", *numbers], numbers)
    for tp, one in found.partitions.items():
        offsets = (one.committed, one.stable, one.end, one.durable)
        cells = list(map(cell, offsets))
        table.add_row(
            named(tp.topic), str(tp.partition), *(cells if with_checkpoint else cells[:-1])
        )
    out.print(table)
    if obstacles:
        for obstacle in obstacles:
            print_line(out, f"not yet: {obstacle}")
        return
    now = utc(time.time_ns() // 1_000_000)
    print_line(
        out,
        f"group {group} is drained: {counted(len(found.partitions), 'partition')} without lag, no "
        f"open transaction, no members; read twice, {now}",
    )
    out.print("start the next one by:")
    for line in commands:
        print_line(out, f"  {line}")


def _document(
    group: str, found: HandoverReading, obstacles: tuple[str, ...], commands: Sequence[str]
) -> Mapping[str, object]:
    return {
        "group": group,
        "drained": not obstacles,
        "obstacles": list(obstacles),
        "lag": found.lag,
        "partitions": [
            {
                **tp._asdict(),
                "committed": one.committed,
                "last_stable_offset": one.stable,
                "log_end": one.end,
                "checkpoint": one.durable,
            }
            for tp, one in found.partitions.items()
        ],
        "next": list(commands),
    }
