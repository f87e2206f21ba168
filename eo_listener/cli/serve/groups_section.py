"""The page's section about groups: a card for each, the gravest first; for a single group its
partitions too.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from eo_listener.cli.group_status import GroupStatus
from eo_listener.cli.options import utc
from eo_listener.cli.serve.attention import MEANINGS, UNKNOWN_CHECKPOINT, GroupAlarm, alarm
from eo_listener.cli.serve.elements import cut, node, number, table
from eo_listener.cli.serve.lag_history import Point
from eo_listener.cli.serve.watched import Groups, View
from eo_listener.cli.status_screen import length, query_of, transactions_command
from eo_listener.errors import counted
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.lag import PartitionLag
from eo_listener.model.lag_window import LagVerdict

_WIDTH: Final = 300.0
_HEIGHT: Final = 48.0
_COLUMNS: Final = 60  # of a line, so that a page of many groups stays small

_Value = Callable[[Point], float | None]
AT_ONCE: Final = 50
"""Groups of one page."""
_ROWS: Final = 500  # partitions of a group
_GONE: Final = 20
_ALARMS: Final = 5


def chart(points: Sequence[Point], now: float, name: str, value: _Value) -> Element | None:
    """The line of one value, from the first point until `now`; None while there is no line.

    Points without a value leave a gap. Of points that are too close to each other the highest is
    drawn.
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
    made = node(
        "svg",
        node("title", title),
        *drawn,
        role="img",
        preserveAspectRatio="none",
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
    )
    return node("figure", made, node("figcaption", title))


def _y(value: float, highest: float) -> float:
    return _HEIGHT - 1 - (_HEIGHT - 2) * (value / highest if highest > 0 else 0)


def _lines(points: Sequence[Point], now: float, value: _Value) -> list[list[tuple[float, float]]]:
    """Lines without gaps, each a list of places from left to right."""
    if not points or now <= points[0].at:
        return []
    begun = points[0].at
    width = (now - begun) / _COLUMNS
    lines: list[list[tuple[float, float]]] = [[]]
    column = -1
    for point in points:
        found = value(point)
        if found is None:
            lines.append([])
            column = -1
            continue
        now_in = int((point.at - begun) / width)
        x = (point.at - begun) / (now - begun) * _WIDTH
        if now_in == column:
            before = lines[-1].pop()
            found = max(found, before[1])
        lines[-1].append((x, max(0.0, found)))
        column = now_in
    return lines


def path_of(group: str) -> str:
    """Return the path of a group's page: of fixed length, and the same at each start."""
    digest = hashlib.sha256(group.encode("utf-8", "surrogatepass")).hexdigest()
    return f"/group/{digest[:16]}"


def by_gravity(found: Groups) -> Groups:
    """In the order of the page: what somebody has to look at first, then by verdict and lag."""
    return tuple(sorted(found, key=_gravity, reverse=True))


def _gravity(one: GroupStatus) -> tuple[int, int, float]:
    """An unknown lag counts as more than any."""
    verdict = -1 if one.verdict is None else one.verdict.gravity
    unread = 2 if one.error is not None or not one.rows else int(bool(one.withheld))
    return unread, verdict, float("inf") if one.lag is None else one.lag


def alarms(view: View, ordered: Groups) -> Iterator[Element]:
    """The gravest groups that need action, each with the commands to run."""
    wrong: list[tuple[GroupStatus, GroupAlarm]] = []
    for one in ordered:
        raised = _alarm(view, one)
        if raised is None:
            break  # what follows is less grave
        wrong.append((one, raised))
    for one, raised in wrong[:_ALARMS]:
        yield node("article", *_raised(one, raised), cls="wrong")
    if len(wrong) > _ALARMS:
        yield node("p", f"and {counted(len(wrong) - _ALARMS, 'group')} more, below")


def _alarm(view: View, one: GroupStatus) -> GroupAlarm | None:
    return alarm(one, view.cluster, view.checkpoints.get(one.group))


def _raised(one: GroupStatus, raised: GroupAlarm) -> Iterator[Element]:
    yield node(
        "p",
        node("strong", raised.kind, cls="badge bad"),
        " group ",
        node("a", cut(one.group), href=path_of(one.group)),
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
    """The cards of one page, counted from 1."""
    pages = max(1, -(-len(ordered) // AT_ONCE))
    page = min(page, pages)
    shown = ordered[(page - 1) * AT_ONCE : page * AT_ONCE]
    empty = "" if ordered else "No group matches: check the names and the cluster."
    return node(
        "section",
        node("h2", counted(len(ordered), "group")),
        node("p", empty) if empty else None,
        *(_card(view, one) for one in shown),
        _pages(page, pages) if pages > 1 else None,
        _gone(view),
    )


def group_section(view: View, one: GroupStatus) -> Element:
    """One group, with its partitions: those that are furthest behind first."""
    rows = sorted(one.rows, key=_behind, reverse=True)
    more = len(rows) - _ROWS
    raised = _alarm(view, one)
    return node(
        "section",
        _card(view, one, link=False),
        *(_advice(view, one) if raised is None else _raised(one, raised)),
        table(
            ["partition", "committed", "stable", "log end", "lag", "age", "verdict", "query"],
            [_row(one, row) for row in rows[:_ROWS]],
            cls="numbers",
        )
        if rows
        else None,
        node("p", f"and {more:,} more partitions; /api/status has them all") if more > 0 else None,
    )


def _advice(view: View, one: GroupStatus) -> Iterator[Element]:
    """Commands to run if no problem is visible here."""
    commands = [view.cluster.typed(["status"], arguments=[one.group])]
    if one.held_up:
        commands.append(transactions_command(view.cluster, [one.group]))
    yield from _typed(commands)


def _behind(row: PartitionLag) -> float:
    return float("inf") if row.lag is None else row.lag


def _batch(writer: CommitMetadata) -> str:
    return "" if writer.batch is None else f", batch {writer.batch}"


def _row(one: GroupStatus, row: PartitionLag) -> list[str | Element]:
    verdict = one.verdicts.get(row.partition)
    batch = "" if row.writer is None else _batch(row.writer)
    return [
        cut(str(row.partition)),
        number(row.committed),
        number(row.stable_end),
        number(row.log_end),
        number(row.lag),
        length(row.age(one.now_ms)),
        "-" if verdict is None else verdict.value,
        cut(query_of(row)) + batch,
    ]


def _card(view: View, one: GroupStatus, *, link: bool = True) -> Element:
    name = cut(one.group)
    title = node("a", name, href=path_of(one.group)) if link else name
    points = view.points.get(one.group, ())
    return node(
        "article",
        node("h3", title, " ", _badge(one)),
        node("dl", *_facts(one, points)) if one.error is None and one.rows else None,
        node("div", *_charts(view, points), cls="charts"),
    )


def _badge(one: GroupStatus) -> Element:
    """The verdict, or the reason why there is none."""
    if one.error is not None:
        return node("strong", f"not read: {cut(one.error)}", cls="badge bad")
    if not one.rows:
        return node("strong", "holds no offsets", cls="badge bad")
    if one.verdict is None:
        return node("span", "no verdict yet", cls="badge")
    kind = {LagVerdict.OK: "good", LagVerdict.WARN: "warn"}.get(one.verdict, "bad")
    return node("strong", one.verdict.value, cls=f"badge {kind}", title=MEANINGS[one.verdict])


def _facts(one: GroupStatus, points: Sequence[Point]) -> Iterator[Element]:
    lag = "unknown" if one.lag is None else number(one.lag)
    if one.stable_lag not in (None, one.lag):
        lag += f" ({number(one.stable_lag)} stable)"
    rate = points[-1].rate if points else None
    newest = one.newest
    facts = {
        "lag": lag,
        "oldest record": length(one.age),
        "records a second": number(rate),
        "lag 0 in": length(one.drained_in),
        "last commit": "-" if one.quiet is None else f"{length(one.quiet)} ago",
        "partitions": number(len(one.rows)),
    }
    if one.withheld:
        facts["guard"] = f"withholds {counted(len(one.withheld), 'partition')}"
    if one.held_up:
        facts["open transaction"] = "blocks readers"
    if newest is not None:
        facts["query"] = f"{cut(newest.author)}{_batch(newest)}"
    for name, value in facts.items():
        yield node("div", node("dt", name), node("dd", value))


def _charts(view: View, points: Sequence[Point]) -> Iterator[Element]:
    now = view.now.monotonic
    for made in (
        chart(points, now, "lag", lambda point: point.lag),
        chart(points, now, "records a second", lambda point: point.rate),
    ):
        if made is not None:
            yield made


def _pages(page: int, pages: int) -> Element:
    def link(to: int, text: str) -> Element | None:
        return node("a", text, href=f"/?page={to}") if 1 <= to <= pages else None

    here = f" page {page} of {pages} "
    return node("nav", link(page - 1, "previous"), here, link(page + 1, "next"))


def _gone(view: View) -> Element | None:
    """Groups that held offsets before, and hold none now."""
    if not view.gone:
        return None
    newest = sorted(view.gone.items(), key=lambda one: one[1], reverse=True)
    more = len(newest) - _GONE
    return node(
        "div",
        node("h3", "no longer there"),
        node(
            "ul",
            *(
                node("li", f"{cut(name)}: held offsets until {utc(round(view.wall(at) * 1000))}")
                for name, at in newest[:_GONE]
            ),
            node("li", f"and {more:,} more") if more > 0 else None,
        ),
    )


def legend() -> Element:
    """Explain the verdicts."""
    return node(
        "details",
        node("summary", "what the verdicts mean"),
        node(
            "dl",
            *(
                node("div", node("dt", one.value), node("dd", meaning))
                for one, meaning in MEANINGS.items()
            ),
        ),
        id="legend",
    )
