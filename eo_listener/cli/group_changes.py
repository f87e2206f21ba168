"""How `eo-listener group seed`, `rewind` and `import` change a group: read, plan, show, commit."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

import typer
from rich.text import Text

from eo_listener.cli import completion
from eo_listener.cli.group_origins import NamedOrigin
from eo_listener.cli.options import (
    Execute,
    Json,
    console,
    named,
    print_json,
    print_line,
    require_names,
    table_of,
)
from eo_listener.commit.groups.group_change import (
    Direction,
    GroupChange,
    GroupOutcome,
    PartitionChange,
)
from eo_listener.errors import GuardError, SettingsError, counted, few
from eo_listener.foreach_batch.starting_offsets.resolve import (
    Origin,
    Policy,
    Recreated,
    choose_for_group,
)
from eo_listener.foreach_batch.starting_offsets.source_cluster import SourceCluster
from eo_listener.kafka.group_repair import GroupRepair
from eo_listener.model.argument_checks import choice, require_one_of, require_seconds
from eo_listener.offsets import Position, TopicPartition

LEAVE: Final = "leave"
POLICIES: Final = tuple(policy.value for policy in Policy)
_ARGUMENT: Final = re.compile(r'\b(missing|out_of_range|recreated)="(\w+)"')


@dataclass(frozen=True, kw_only=True)
class ChangeOptions:
    """The options of each command that changes a group."""

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
            help="For a topic recreated since then: earliest (its start) or fail.",
        ),
    ] = "fail"
    watch: Annotated[
        float,
        typer.Option(
            help="With --execute: seconds during which the group must not change before the "
            "command changes it."
        ),
    ] = 10.0
    execute: Execute = False
    as_json: Json = False

    def chooser(self, missing: str) -> Callable[..., dict[TopicPartition, int]]:
        """Return `choose_for_group` with the policies of the options. Raises SettingsError."""
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
    """Read the origin, plan, and with `execute` commit; print what was or would be done.

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
        positions = repair.held()
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
        raise SettingsError(f"{origin.what} has no offsets", fix="Check the origin of the offsets")
    topics = {tp.topic for tp in origin.offsets}
    partitions = [tp for tp in cluster.partitions(None) if tp.topic in topics]
    try:
        return choose(origin, partitions, positions, cluster.snapshot(partitions))
    except (GuardError, SettingsError) as error:
        error.fix = _as_options(error.fix)
        raise


def _as_options(fix: str | None) -> str | None:
    """The arguments of `starting_offsets` that a fix names, as the options of the command."""
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
    print_line(out, f"group {change.group}, by {origin.what}")
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
    """Return the group's offsets as they were read back, or as they would be."""
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
            "a Spark query does not start from the group but from its checkpoint. A listener "
            "that commits to this group moves it to its query's position again"
        )
    return notes


def _document(
    origin: Origin, change: GroupChange, *, executed: bool, outcome: GroupOutcome | None = None
) -> Mapping[str, object]:
    missing = frozenset(() if outcome is None else outcome.missing)
    return {
        "group": change.group,
        "from": origin.what,
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
