"""`eo-listener follow`: commit for queries that cannot be changed, from their checkpoints."""

from __future__ import annotations

import logging
from typing import Any

import typer

from eo_listener.cli import follow_options as options
from eo_listener.cli.options import print_json, with_options
from eo_listener.cli.service import begin_log, stop_signals
from eo_listener.errors import ExitCode, SettingsError
from eo_listener.follow import FollowedCheckpoint, Follower, Report
from eo_listener.follow.config import read
from eo_listener.model.argument_checks import require_seconds

EXAMPLE = "Example: eo-listener follow s3a://bucket/flights-c -b localhost:9092 -g flights-to-pg"

_ONCE = 60.0
_CLOSING = 5.0  # with what comes after it, below the 10 s that containers are given to end
_TICK = 1.0


@with_options
def follow(
    *,
    named: options.TargetOptions,
    how: options.ServiceOptions,
    once: options.Once = False,
    timeout: options.Timeout = None,
    as_json: options.Json = False,
) -> None:
    """Commit for queries, from their checkpoints alone.

    A service until SIGTERM or Ctrl-C: no code, no jar and no restart in the query. With --once:
    exit status 0 when all is confirmed, 1 when something was found, 3 when a part was unavailable.
    """
    if not once and (as_json or timeout is not None):
        raise SettingsError("--json and --timeout are for --once", fix="Add --once, or remove them")
    targets: tuple[FollowedCheckpoint, ...]
    service: dict[str, Any] = {}
    if named.config is None:
        targets = options.typed_targets(named)
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
    follower = options.build(targets, service)
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
    """Follow until a signal comes; a second one ends the process at once."""
    with stop_signals() as stopped:
        follower.start()
        logging.getLogger("eo_listener").info("following %d checkpoints", count)
        while not stopped.wait(_TICK):
            follower.poll()
    follower.close(_CLOSING)
