"""How `eo-listener group seed`, `rewind` and `import` change a group: read, plan, show, commit."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, Final

import typer
from rich.text import Text

from eo_listener.cli import completion
from eo_listener.cli.group_origins import NamedOrigin
from eo_listener.cli.options import (
    Execute,
    Json,
    cell,
    console,
    named,
    new_table,
    print_json,
    print_line,
    require_names,
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
from eo_listener.model.argument_checks import require_one_of, require_seconds
from eo_listener.offsets import Position, TopicPartition

LEAVE: Final = "leave"
POLICIES: Final = tuple(one.value for one in Policy)
RECREATED: Final = tuple(one.value for one in Recreated)
_ARGUMENT: Final = re.compile(r'\b(missing|out_of_range|recreated)="(\w+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Policies for a partition without a usable offset in the origin; as in `choose_for_group`."""

    missing: Policy | None
    out_of_range: Policy
    recreated: Recreated

    @classmethod
    def of(cls, missing: str, out_of_range: str, recreated: str) -> Rules:
        """Read the options. Raises SettingsError."""
        require_one_of("--missing", missing, [*POLICIES, LEAVE])
        require_one_of("--out-of-range", out_of_range, POLICIES)
        require_one_of("--recreated", recreated, RECREATED)
        return cls(
            missing=None if missing == LEAVE else Policy(missing),
            out_of_range=Policy(out_of_range),
            recreated=Recreated(recreated),
        )


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
            autocompletion=completion.one_of(RECREATED),
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


def change_group(
    origin_named: NamedOrigin,
    properties: Mapping[str, str],
    rules: Rules,
    options: ChangeOptions,
    *,
    rewinds: bool = False,
) -> None:
    """Read the origin, plan, and with `execute` commit; print what was or would be done."""
    require_names("group", [origin_named.group])
    watch = require_seconds("--watch", options.watch, least=0.0)
    with (
        closing(SourceCluster(properties)) as cluster,
        closing(GroupRepair(properties, origin_named.group)) as repair,
    ):
        repair.refuse_members()
        held = repair.held()
        origin, author = origin_named.read(cluster, held, properties)
        wanted = _wanted(cluster, origin, held, rules)
        change = GroupChange.plan(origin_named.group, held, wanted, author, rewinds=rewinds)
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


def _wanted(
    cluster: SourceCluster,
    origin: Origin,
    held: Mapping[TopicPartition, Position],
    rules: Rules,
) -> dict[TopicPartition, int]:
    if not origin.offsets:
        raise SettingsError(f"{origin.what} has no offsets", fix="Check the origin of the offsets")
    topics = {tp.topic for tp in origin.offsets}
    there = [tp for tp in cluster.partitions(None) if tp.topic in topics]
    try:
        return choose_for_group(
            origin,
            there,
            held,
            cluster.snapshot(there),
            missing=rules.missing,
            out_of_range=rules.out_of_range,
            recreated=rules.recreated,
        )
    except (GuardError, SettingsError) as error:
        error.fix = _as_options(error.fix)
        raise


def _as_options(fix: str | None) -> str | None:
    """The arguments of `starting_offsets` that a fix names, as the options of the command."""
    if fix is None:
        return None
    as_options = _ARGUMENT.sub(lambda one: f"--{one[1].replace('_', '-')} {one[2]}", fix)
    return as_options.replace("topics=", "--topic")


def _print(
    origin: Origin, change: GroupChange, *, executed: bool, outcome: GroupOutcome | None = None
) -> None:
    after = _after(change, outcome)
    missing = frozenset(() if outcome is None else outcome.missing)
    out = console()
    print_line(out, f"group {change.group}, by {origin.what}")
    numbers = ("partition", "holds", "will hold" if not executed else "holds now")
    table = new_table(("topic", *numbers, "", "was committed by"), numbers)
    for one in change.partitions:
        table.add_row(*map(named, _cells(change, one, after, missing)))
    out.print(table)
    for line in _notes(change):
        print_line(out, line)
    count = len(change.positions())
    what = counted(count, "partition")
    if not count:
        there = all(one.direction is Direction.SAME for one in change.partitions)
        why = "the group is already there" if there else "no partition would go back"
        out.print(Text(f"nothing to commit: {why}"))
    elif missing:
        out.print(named(f"committed: {count - len(missing)} of {what}"))
    elif executed:
        out.print(named(f"committed: {what}, and read back"))
    else:
        out.print(named(f"dry run, nothing was changed. To commit {what}, add --execute"))


def _cells(
    change: GroupChange,
    one: PartitionChange,
    after: Mapping[TopicPartition, int],
    missing: Collection[TopicPartition],
) -> tuple[str, ...]:
    word = one.direction.value
    if one.partition in missing:
        word = "not moved"
    elif not change.moves(one) and one.direction is not Direction.SAME:
        word = "left as it is"
    return (
        one.partition.topic,
        str(one.partition.partition),
        cell(one.held and one.held.offset),
        str(after.get(one.partition, "-")),
        word,
        cell(one.writer),
    )


def _after(change: GroupChange, outcome: GroupOutcome | None) -> dict[TopicPartition, int]:
    """Return the group's offsets as they were read back, or as they would be."""
    held = {**change.held, **change.positions()} if outcome is None else outcome.held
    return {tp: position.offset for tp, position in held.items()}


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
                **one.partition._asdict(),
                "held": one.held and one.held.offset,
                "offset": one.offset,
                "direction": one.direction.value,
                "commits": change.moves(one),
                "moved": outcome is not None and change.moves(one) and one.partition not in missing,
                "writer": None if one.writer is None else str(one.writer),
            }
            for one in change.partitions
        ],
        "notes": _notes(change),
    }
