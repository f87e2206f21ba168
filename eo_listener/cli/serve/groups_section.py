"""Builds the page's section about groups: a card for each group, the gravest first.

The page of a single group also shows its partitions.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final
from xml.etree.ElementTree import Element

from eo_listener.cli.group_status import GroupStatus
from eo_listener.cli.options import utc
from eo_listener.cli.serve.elements import cut, definitions, excess, node, number, table
from eo_listener.cli.serve.watched import Groups, Point, View
from eo_listener.cli.status_screen import query_of, transactions_command
from eo_listener.errors import counted, few, length
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.lag import PartitionLag
from eo_listener.model.lag_window import LagVerdict
from eo_listener.model.typed_command import ClusterCommands

UNKNOWN_CHECKPOINT: Final = "CHECKPOINT"
"""The placeholder in a command for a checkpointLocation that the page does not know."""
MEANINGS: Final = {
    LagVerdict.OK: "there is no lag, or it decreases",
    LagVerdict.WARN: "the group commits, but its lag does not decrease: it is slow",
    LagVerdict.STALL: "the group commits the same offset again and again, while there is lag",
    LagVerdict.STOP: "the group no longer commits, while there is lag",
    LagVerdict.REWIND: "an offset moved back",
}
_CAUSES: Final = {
    LagVerdict.STALL: "the query hangs in a batch, or its commits are refused; see its log",
    LagVerdict.STOP: "the query's driver has ended, the query hangs in a batch, or its commits "
    "fail; see its log",
    LagVerdict.REWIND: "the query was started from an older or a new checkpoint, somebody moved "
    "the group back, or a second driver commits to it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAlarm:
    """The problem of a group: its `kind` in a few words, and the `commands` to run."""

    kind: str
    what: str
    cause: str
    commands: tuple[str, ...]


def alarm(
    group: GroupStatus, cluster: ClusterCommands, checkpoint: str | None
) -> GroupAlarm | None:
    """Return the problem of a group, or None if no action is needed."""
    preflight = cluster.check_group(group.group)
    if group.error is not None:
        return GroupAlarm(
            kind="not read",
            what=f"Kafka refused to read it: {group.error}",
            cause="this client lacks a permission, or the group's coordinator is unavailable",
            commands=(preflight,),
        )
    if not group.rows:
        return GroupAlarm(
            kind="holds no offsets",
            what="nothing was ever committed to it, its offsets expired, or it was deleted",
            cause="the name or cluster is wrong, or its query has not run for a week",
            commands=(preflight,),
        )
    if group.withheld:
        kind = "withheld"
        what = f"the listener's guard withholds newer offsets of {few(group.withheld, 3)}"
        cause = (
            "a batch did not continue the previous batch: GuardViolation in the query's log. "
            'To accept it, start the query with guard="warn"'
        )
    elif group.verdict in _CAUSES:
        kind, what = group.verdict.value, MEANINGS[group.verdict]
        cause = _CAUSES[group.verdict]
    else:
        return None
    commands = tuple(_commands(group, cluster, checkpoint))
    return GroupAlarm(kind=kind, what=what, cause=cause, commands=commands)


def _commands(
    group: GroupStatus, cluster: ClusterCommands, checkpoint: str | None
) -> Iterator[str]:
    where = ["--checkpoint", checkpoint or UNKNOWN_CHECKPOINT]
    yield cluster.typed(["audit", *where], ["-g", group.group], reads_checkpoint=True)
    if group.held_up:
        yield transactions_command(cluster, [group.group])


_WIDTH: Final = 300.0
_HEIGHT: Final = 48.0
_COLUMNS: Final = 60  # points of a line, so that a page of many groups stays small

_Value = Callable[[Point], float | None]
AT_ONCE: Final = 50
"""The maximum number of groups on one page."""
_ROWS: Final = 500  # partitions of a group
_GONE: Final = 20
_ALARMS: Final = 5


def chart(points: Sequence[Point], now: float, name: str, value: _Value) -> Element | None:
    """Return the chart of one value, from the first point until `now`, or None if there is no line.

    Points without a value leave a gap. Among points that are too close together, the chart shows
    the highest.
    """
    lines = _lines(points, now, value)
    if not any(len(line) > 1 for line in lines):
        return None
    highest = max(y for line in lines for _, y in line)
    title = f"{name}: at most {number(highest)}, in {length(now - points[0].at)}"
    drawn = [
        node(
            "polyline",
            points=" ".join(f"{x:.1f},{_y(y, highest):.1f}" for x, y in line),
            vector_effect="non-scaling-stroke",
        )
        for line in lines
        if len(line) > 1
    ]
    drawing = node(
        "svg",
        node("title", title),
        *drawn,
        role="img",
        preserveAspectRatio="none",
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
    )
    return node("figure", drawing, node("figcaption", title))


def _y(value: float, highest: float) -> float:
    return _HEIGHT - 1 - (_HEIGHT - 2) * (value / highest if highest > 0 else 0)


def _lines(points: Sequence[Point], now: float, value: _Value) -> list[list[tuple[float, float]]]:
    """Return the lines between gaps, each as a list of coordinates from left to right."""
    if not points or now <= points[0].at:
        return []
    start = points[0].at
    width = (now - start) / _COLUMNS
    lines: list[list[tuple[float, float]]] = [[]]
    column = -1
    for point in points:
        y = value(point)
        if y is None:
            lines.append([])
            column = -1
            continue
        now_in = int((point.at - start) / width)
        x = (point.at - start) / (now - start) * _WIDTH
        if now_in == column:
            before = lines[-1].pop()
            y = max(y, before[1])
        lines[-1].append((x, max(0.0, y)))
        column = now_in
    return lines


def path_of(group: str) -> str:
    """Return the path of a group's page, which has a fixed length and survives a restart."""
    digest = hashlib.sha256(group.encode("utf-8", "surrogatepass")).hexdigest()
    return f"/group/{digest[:16]}"


def by_gravity(groups: Groups) -> Groups:
    """Return the groups in the order of the page: problems first, then by verdict and lag."""
    return tuple(sorted(groups, key=_gravity, reverse=True))


def _gravity(group: GroupStatus) -> tuple[int, int, float]:
    """Return the sort key of a group, in which an unknown lag is the greatest."""
    verdict = -1 if group.verdict is None else group.verdict.gravity
    unread = 2 if group.error is not None or not group.rows else int(bool(group.withheld))
    return unread, verdict, float("inf") if group.lag is None else group.lag


def alarms(view: View, ordered: Groups) -> Iterator[Element]:
    """Yield the gravest groups that need action, each with the commands to run."""
    wrong: list[tuple[GroupStatus, GroupAlarm]] = []
    for group in ordered:
        raised = _alarm(view, group)
        if raised is None:
            break  # the remaining groups are less grave
        wrong.append((group, raised))
    for group, raised in wrong[:_ALARMS]:
        yield node("article", *_raised(group, raised), cls="wrong")
    if len(wrong) > _ALARMS:
        yield node("p", f"and {counted(len(wrong) - _ALARMS, 'group')} more, below")


def _alarm(view: View, group: GroupStatus) -> GroupAlarm | None:
    return alarm(group, view.cluster, view.checkpoints.get(group.group))


def _raised(group: GroupStatus, raised: GroupAlarm) -> Iterator[Element]:
    yield node(
        "p",
        node("strong", raised.kind, cls="badge bad"),
        " group ",
        node("a", cut(group.group), href=path_of(group.group)),
        f": {cut(raised.what, 2_000)}",
    )
    yield node("p", f"cause: {raised.cause}")
    yield from _typed(raised.commands)


def _typed(commands: Sequence[str]) -> Iterator[Element]:
    yield node("p", "Run:")
    for command in commands:
        yield node("pre", cut(command, 2_000))
    if any(UNKNOWN_CHECKPOINT in shlex.split(command) for command in commands):
        yield node("p", f"{UNKNOWN_CHECKPOINT} is the query's checkpointLocation")


def groups_section(view: View, ordered: Groups, page: int) -> Element:
    """Return the section with the cards of page number `page`, counted from 1."""
    pages = max(1, -(-len(ordered) // AT_ONCE))
    page = min(page, pages)
    shown = ordered[(page - 1) * AT_ONCE : page * AT_ONCE]
    empty = "" if ordered else "No group matches: check the names and the cluster."
    return node(
        "section",
        node("h2", counted(len(ordered), "group")),
        node("p", empty) if empty else None,
        *(_card(view, group) for group in shown),
        _pages(page, pages) if pages > 1 else None,
        _gone(view),
    )


def group_section(view: View, group: GroupStatus) -> Element:
    """Return the section of one group, with its partitions by descending lag."""
    rows = sorted(group.rows, key=_behind, reverse=True)
    raised = _alarm(view, group)
    return node(
        "section",
        _card(view, group, link=False),
        *(_advice(view, group) if raised is None else _raised(group, raised)),
        table(
            ["partition", "committed", "stable", "log end", "lag", "age", "verdict", "query"],
            [_row(group, row) for row in rows[:_ROWS]],
            cls="numbers",
        )
        if rows
        else None,
        excess(len(rows), _ROWS, "more partitions; /api/status has them all"),
    )


def _advice(view: View, group: GroupStatus) -> Iterator[Element]:
    """Yield commands that may help with a group without a problem."""
    commands = [view.cluster.typed(["status"], arguments=[group.group])]
    if group.held_up:
        commands.append(transactions_command(view.cluster, [group.group]))
    yield from _typed(commands)


def _behind(row: PartitionLag) -> float:
    return float("inf") if row.lag is None else row.lag


def _batch(writer: CommitMetadata) -> str:
    return "" if writer.batch is None else f", batch {writer.batch}"


def _row(group: GroupStatus, row: PartitionLag) -> list[str | Element]:
    verdict = group.verdicts.get(row.partition)
    batch = "" if row.writer is None else _batch(row.writer)
    return [
        cut(str(row.partition)),
        number(row.committed),
        number(row.stable_end),
        number(row.log_end),
        number(row.lag),
        length(row.age(group.now_ms)),
        "-" if verdict is None else verdict.value,
        cut(query_of(row)) + batch,
    ]


def _card(view: View, group: GroupStatus, *, link: bool = True) -> Element:
    name = cut(group.group)
    title = node("a", name, href=path_of(group.group)) if link else name
    points, now = view.points.get(group.group, ()), view.now.monotonic
    return node(
        "article",
        node("h3", title, " ", _badge(group)),
        _facts(group, points) if group.error is None and group.rows else None,
        node(
            "div",
            chart(points, now, "lag", attrgetter("lag")),
            chart(points, now, "records a second", attrgetter("rate")),
            cls="charts",
        ),
    )


def _badge(group: GroupStatus) -> Element:
    """Return the label with a group's verdict, or with the reason why there is no verdict."""
    if group.error is not None:
        return node("strong", f"not read: {cut(group.error)}", cls="badge bad")
    if not group.rows:
        return node("strong", "holds no offsets", cls="badge bad")
    if group.verdict is None:
        return node("span", "no verdict yet", cls="badge")
    kind = {LagVerdict.OK: "good", LagVerdict.WARN: "warn"}.get(group.verdict, "bad")
    return node("strong", group.verdict.value, cls=f"badge {kind}", title=MEANINGS[group.verdict])


def _facts(group: GroupStatus, points: Sequence[Point]) -> Element:
    lag = "unknown" if group.lag is None else number(group.lag)
    if group.stable_lag not in (None, group.lag):
        lag += f" ({number(group.stable_lag)} stable)"
    rate = points[-1].rate if points else None
    newest = group.newest
    facts = {
        "lag": lag,
        "oldest record": length(group.age),
        "records a second": number(rate),
        "lag 0 in": length(group.drained_in),
        "last commit": "-" if group.quiet is None else f"{length(group.quiet)} ago",
        "partitions": number(len(group.rows)),
    }
    if group.withheld:
        facts["guard"] = f"withholds {counted(len(group.withheld), 'partition')}"
    if group.held_up:
        facts["open transaction"] = "blocks readers"
    if newest is not None:
        facts["query"] = f"{cut(newest.author)}{_batch(newest)}"
    return definitions(facts)


def _pages(page: int, pages: int) -> Element:
    def link(to: int, text: str) -> Element | None:
        return node("a", text, href=f"/?page={to}") if 1 <= to <= pages else None

    here = f" page {page} of {pages} "
    return node("nav", link(page - 1, "previous"), here, link(page + 1, "next"))


def _gone(view: View) -> Element | None:
    """Return the list of groups that no longer hold offsets, or None if there are none."""
    if not view.gone:
        return None
    newest = sorted(view.gone.items(), key=lambda entry: entry[1], reverse=True)
    lines = (
        node("li", f"{cut(name)}: held offsets until {utc(round(view.wall(at) * 1000))}")
        for name, at in newest[:_GONE]
    )
    names = node("ul", *lines, excess(len(newest), _GONE, "more", "li"))
    return node("div", node("h3", "no longer there"), names)


def legend() -> Element:
    """Return the explanation of the verdicts."""
    meanings = definitions({verdict.value: meaning for verdict, meaning in MEANINGS.items()})
    return node("details", node("summary", "meanings of the verdicts"), meanings, id="legend")
