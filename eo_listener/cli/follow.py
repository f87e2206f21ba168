"""`eo-listener follow`: commits offsets of queries that you cannot change, from checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from eo_listener.cli import completion
from eo_listener.cli.options import (
    KafkaProperties,
    OptionalServers,
    Storage,
    as_properties,
    print_json,
    storage_options,
    with_options,
)
from eo_listener.cli.service import begin_log, stop_signals
from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.policy import CommitMode, OnRewind, Policy
from eo_listener.commit.tracking.group_names import require_group
from eo_listener.commit.tracking.query_run import RECOMMIT_INTERVAL
from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.errors import ExitCode, SettingsError
from eo_listener.follow import FollowedCheckpoint, Follower, Report
from eo_listener.follow.checkpoint_tracker import INTERVAL
from eo_listener.follow.config import parse_groups, read
from eo_listener.follow.notices import NoticeLog
from eo_listener.kafka.group_stores import open_groups
from eo_listener.model.argument_checks import choice, require_seconds
from eo_listener.observers.log import EventLogger


@dataclass(frozen=True, kw_only=True, repr=False)
class TargetOptions:
    """The options that name the checkpoints to follow, the cluster and the groups."""

    checkpoints: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CHECKPOINT",
            help="Checkpoints of queries: folders, or URLs such as s3a://bucket/folder.",
        ),
    ] = None
    servers: OptionalServers = None
    group: Annotated[
        list[str] | None,
        typer.Option(
            "-g",
            "--group",
            help="The group of all topics, or TOPIC=GROUP for one topic; repeatable.",
        ),
    ] = None
    properties: KafkaProperties = None
    storage: Storage = None
    config: Annotated[
        Path | None,
        typer.Option(help="A TOML file with many checkpoints, their servers and groups."),
    ] = None
    name: Annotated[
        str | None,
        typer.Option(help="The query's name in the commits. Only with a single checkpoint."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """The options for following checkpoints; the fields have the names of the config file."""

    interval: Annotated[
        float | None,
        typer.Option(help=f"Seconds between two reads of a checkpoint. Default: {INTERVAL:.0f}."),
    ] = None
    recommit_interval: Annotated[
        float | None,
        typer.Option(
            help="Seconds between two commits of all offsets, which keep them from expiring. "
            f"Default: {RECOMMIT_INTERVAL:.0f}."
        ),
    ] = None
    guard: Annotated[
        str | None,
        typer.Option(
            "--guard",
            autocompletion=completion.one_of(mode.value for mode in GuardMode),
            help="Reaction to a batch that does not continue the previous batch: withhold or warn. "
            "Default: withhold.",
        ),
    ] = None
    on_rewind: Annotated[
        str | None,
        typer.Option(
            "--on-rewind",
            autocompletion=completion.one_of(choice.value for choice in OnRewind),
            help="Reaction to a checkpoint that is behind its group: refuse or allow. "
            "Default: refuse.",
        ),
    ] = None
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            autocompletion=completion.one_of(mode.value for mode in CommitMode),
            help="The way to commit: simple, member or transactional. Default: simple.",
        ),
    ] = None


def typed_targets(options: TargetOptions) -> tuple[FollowedCheckpoint, ...]:
    """Return the checkpoints that the command line names. Raises SettingsError."""
    if not options.checkpoints:
        raise SettingsError(
            "no checkpoint is named", fix="Run eo-listener follow FOLDER, or use --config"
        )
    if options.servers is None:
        raise SettingsError("no Kafka cluster is named", fix="Add -b HOST:PORT")
    if not options.group:
        raise SettingsError("no group is named", fix="Add -g GROUP")
    if options.name is not None and len(options.checkpoints) > 1:
        raise SettingsError(
            "--name is only for a single checkpoint",
            cause=f"{len(options.checkpoints)} checkpoints are named",
            fix="Use --config, in which each checkpoint has a name of its own",
        )
    cluster = Cluster.from_properties(as_properties(options.servers, options.properties))
    return tuple(
        FollowedCheckpoint(
            location=location,
            cluster=cluster,
            groups=parse_groups(options.group),
            storage=storage_options(options.storage or ()),
            name=options.name,
        )
        for location in options.checkpoints
    )


def build(targets: Sequence[FollowedCheckpoint], service: Mapping[str, Any]) -> Follower:
    """Build a Follower. `service` are settings, by their names in the config file.

    Raises SettingsError.
    """
    for target in targets:
        own = dict(target.cluster.properties)
        servers = own.pop("bootstrap.servers")
        as_properties(servers, [f"{key}={value}" for key, value in own.items()])
    guard = choice(GuardMode, "--guard", service.get("guard", GuardMode.WITHHOLD))
    mode = choice(CommitMode, "--mode", service.get("mode", CommitMode.SIMPLE))
    if mode is CommitMode.TRANSACTIONAL:
        for group in {group for target in targets for group in target.groups.values()}:
            require_group(group, "a group", only_ascii=True)
    return Follower(
        targets,
        lambda cluster: open_groups(dict(cluster.properties), mode.value),
        observers=(EventLogger(), NoticeLog()),
        guard=guard,
        policy=Policy(
            on_rewind=choice(OnRewind, "--on-rewind", service.get("on_rewind", OnRewind.REFUSE)),
            accept_marks=guard is not GuardMode.WITHHOLD,
        ),
        interval=require_seconds("--interval", service.get("interval", INTERVAL), least=0.1),
        recommit_interval=require_seconds(
            "--recommit-interval", service.get("recommit_interval", RECOMMIT_INTERVAL), least=1.0
        ),
    )


EXAMPLE = "Example: eo-listener follow s3a://bucket/flights-c -b localhost:9092 -g flights-to-pg"

_ONCE = 60.0
_CLOSING = 5.0  # seconds; with the steps after it, less than the 10 s that a container has to end
_TICK = 1.0


@with_options
def follow(
    *,
    named: TargetOptions,
    how: ServiceOptions,
    once: Annotated[
        bool, typer.Option("--once", help="Commit the offsets that are durable now, then exit.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="With --once: seconds for the whole run, half of them for reading storage. "
            "Default: 60."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --once: print one JSON document.")
    ] = False,
) -> None:
    """Commit the offsets of queries from their checkpoints alone.

    Runs until SIGTERM or Ctrl-C; the queries need no code, no jar and no restart. With --once: exit
    status 0 if all offsets are confirmed, 1 if there is a problem, 3 if a checkpoint or Kafka is
    unavailable.
    """
    if not once and (as_json or timeout is not None):
        raise SettingsError("--json and --timeout are for --once", fix="Add --once, or remove them")
    targets: tuple[FollowedCheckpoint, ...]
    service: dict[str, Any] = {}
    if named.config is None:
        targets = typed_targets(named)
    elif any(value for key, value in vars(named).items() if key != "config"):
        raise SettingsError(
            "--config cannot be combined with checkpoints, servers or groups on the command line",
            fix="Put all of them in the file",
        )
    else:
        config = read(named.config)
        targets, service = config.targets, dict(config.service)
    service.update({key: value for key, value in vars(how).items() if value is not None})
    begin_log(logging.WARNING if once else logging.INFO)
    follower = build(targets, service)
    if once:
        _once(follower, require_seconds("--timeout", timeout or _ONCE, least=1.0), as_json)
    else:
        _serve(follower, len(targets))


def _once(follower: Follower, timeout: float, as_json: bool) -> None:
    try:
        reports = follower.once(timeout)
    finally:
        follower.close(_CLOSING)
    if as_json:
        print_json({"checkpoints": [_document(report) for report in reports]})
    else:
        for report in reports:
            print(_line(report))
    code = max((report.exit_code for report in reports), default=ExitCode.FINE)
    if code:
        raise typer.Exit(code)


def _line(report: Report) -> str:
    if report.batch is None:
        return f"{report.checkpoint}: nothing is committed"
    total = sum(map(len, report.groups.values()))
    done = total - len(report.refused) - len(report.failed)
    where = ", ".join(report.groups)
    return f"{report.checkpoint}: batch {report.batch}, {done} of {total} partitions in {where}"


def _document(report: Report) -> dict[str, object]:
    return {
        "checkpoint": report.checkpoint,
        "batch": report.batch,
        "groups": {
            group: [
                {
                    **tp._asdict(),
                    "offset": offset,
                    "problem": report.refused.get(tp) or report.failed.get(tp),
                }
                for tp, offset in offsets.items()
            ]
            for group, offsets in report.groups.items()
        },
        "notices": [str(notice) for notice in report.notices],
        "exit": report.exit_code,
    }


def _serve(follower: Follower, count: int) -> None:
    """Commit for the checkpoints until a signal comes; a second signal ends the process."""
    with stop_signals() as stopped:
        follower.start()
        logging.getLogger("eo_listener").info("following %d checkpoints", count)
        while not stopped.wait(_TICK):
            follower.poll()
    follower.close(_CLOSING)
