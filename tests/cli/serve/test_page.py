"""The page as a browser parses it, and what it asks people to act on; its size has a limit."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from eo_listener.cli.group_status import GroupStatus
from eo_listener.cli.options import escaped
from eo_listener.cli.position_reader import AuditRequest
from eo_listener.cli.serve.groups_section import AT_ONCE, alarm, path_of
from eo_listener.cli.serve.page import group_page, overview
from eo_listener.cli.serve.watched import View, Watched
from eo_listener.errors import KafkaError
from eo_listener.model.lag_window import LagVerdict
from eo_listener.model.typed_command import ClusterCommands
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.ledger_address import LedgerAddress
from tests.cli.checkpoint_files import CheckpointFiles
from tests.cli.serve.made_up import CLUSTER, HOSTILE, SERVERS, AuditHere, FakeReader, group, watched
from tests.cli.sqlite_ledger import Store
from tests.documents.test_commands import require_typable

STOP, WARN = LagVerdict.STOP, LagVerdict.WARN
_TAGS = frozenset(
    {
        *("html", "head", "meta", "title", "link", "noscript", "script", "body"),
        *("header", "main", "footer", "nav", "section", "article", "details", "summary", "div"),
        *("h1", "h2", "h3", "p", "a", "strong", "span", "small", "pre", "ul", "li"),
        *("dl", "dt", "dd", "figure", "figcaption", "svg", "polyline"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
)


class Page(HTMLParser):
    """Its text, tags and attributes, by Python's own parser of HTML."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def found(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def of_group(view: View, name: str) -> Page:
    body = group_page(view, path_of(name))
    assert body is not None
    return Page(body)


def require_harmless(page: Page) -> None:
    """Only our own elements, one script of ours, and nothing that the policy would refuse."""
    assert {tag for tag, _ in page.tags} <= _TAGS
    assert [one.get("src") for one in page.found("script")] == ["/page.js"]
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
    for link in page.found("a"):
        assert (link["href"] or "").startswith("/")
    for character in page.text:
        assert character.isprintable() or character == "\n"


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_text(name: str) -> None:
    """Of a group, a topic, a query and an error; on the overview and on the group's own page."""
    found = [
        group(name, [7, None], topic=name, query=name, verdict=STOP),
        group("refused", [], error=name),
    ]
    made, _, _ = watched(found, times=3)
    made.audit_failed(name)
    view = made.view()
    for body in (overview(view), group_page(view, path_of(name))):
        assert body is not None
        page = Page(body)
        require_harmless(page)
        assert escaped(name)[:100] in page.text
        assert len(body) < 40_000


def test_a_group_shows_what_status_shows() -> None:
    """Lag, age, rate, verdict, who has committed, and each partition: furthest behind first."""
    made, reader, clock = watched([group("flights-to-pg", [5, 9])])
    clock.seconds += 10
    reader.found = [group("flights-to-pg", [6, 10], quiet=3.0, drained_in=120.0)]
    made.read_groups(reader)
    view = made.view()
    page = Page(overview(view))
    for shown in ("OK", "lag4", "oldest record5 s", "records a second0.2", "lag 0 in2 min"):
        assert shown in page.text, shown
    assert "delays, batch 12" in page.text
    assert len(page.found("polyline")) == 1  # the lag; of the rate there is one point only
    text = of_group(view, "flights-to-pg").text
    assert re.findall(r"flights-\d", text) == ["flights-0", "flights-1"]
    assert f"eo-listener status -b {SERVERS} flights-to-pg" in text


def test_what_is_gravest_comes_first() -> None:
    """What could not be read, then by verdict, then by lag."""
    made, _, _ = watched(
        [
            group("ok"),
            group("slow", [1], verdict=WARN),
            group("slower", [0], verdict=WARN),
            group("stopped", verdict=STOP),
            group("refused", [], error="GROUP_AUTHORIZATION_FAILED"),
        ]
    )
    page = Page(overview(made.view()))
    names = ["refused", "stopped", "slower", "slow", "ok"]
    links = [one["href"] for one in page.found("a")]
    assert links[:7] == [path_of(name) for name in (*names[:2], *names)]  # two are to be acted on
    assert "refused - eo-listener" in page.text


def test_what_is_wrong_stands_first_with_what_to_type() -> None:
    """Before any group that is well: what it is, its cause, and the command; of five, of 60."""
    many = [group(f"stopped-{n}", verdict=STOP) for n in range(60)]
    text = Page(overview(watched([group("well"), *many])[0].view())).text
    assert text.partition("61 groups")[0].count("STOP group stopped-") == 5
    assert "and 55 groups more, below" in text
    made, _, _ = watched([group(f"well-{n}") for n in range(60)] + [group("stopped", verdict=STOP)])
    text = Page(overview(made.view())).text
    assert text.index("STOP group stopped: ") < text.index("61 groups")
    typed = f"eo-listener audit --checkpoint CHECKPOINT -b {SERVERS} -g stopped"
    assert text.index(typed) < text.index("CHECKPOINT is the query's") < text.index("61 groups")
    assert typed in of_group(made.view(), "stopped").text


def test_what_an_audit_has_found_stands_first_with_what_to_type(tmp_path: Path) -> None:
    """What it found to be as it should be stands below the groups, folded."""
    tp = TopicPartition("flights", 0)
    files = CheckpointFiles(tmp_path / "c", {tp: 0}, {tp: 10})
    ledger = LedgerAddress.parse(Store(tmp_path / "s.db").address)
    made = Watched(CLUSTER, every=10.0, audit_every=60.0)
    made.read_groups(FakeReader([group("well")]))
    made.read_audit(AuditHere(AuditRequest(checkpoint=str(files.folder), ledgers=[ledger])))
    page = Page(overview(made.view()))
    assert "audit: to act on - eo-listener" in page.text
    top, _, rest = page.text.partition("1 group")
    assert "audit: nothing found lost" in top
    assert "problem" in top
    assert "cause: " in top
    assert "fine checkpoint" not in top
    assert "fine checkpoint" in rest
    assert {one.get("id") for one in page.found("details")} >= {"fine", "positions"}


def test_none_that_is_wrong_is_left_out() -> None:
    """Whatever its verdict and its lag are beside those of groups that are well."""
    wrong = [
        group("withheld", [9], withheld=True),
        group("withheld-slow", [0], withheld=True, verdict=WARN),
        group("unknown-lag", [None, 3], verdict=STOP),
        group("empty", []),
    ]
    well = [group("ok", [0]), group("slow", [0], verdict=WARN), group("new", [None], verdict=None)]
    made, _, _ = watched([*well, *wrong])
    top, _, _ = Page(overview(made.view())).text.partition("7 groups")
    for one in (*wrong, *well):
        assert (f"group {one.group}:" in top) is (one in wrong), one.group
    made, _, _ = watched(well)  # nobody is paged
    assert "to act on" not in Page(overview(made.view())).text


def test_no_old_number_is_shown_as_current() -> None:
    """While Kafka is away there is none at all, but since when nothing is known, and why."""
    made, reader, clock = watched([group("flights-to-pg", [1234], end=98765)], times=3)
    assert "97,531" in Page(overview(made.view())).text
    clock.seconds += 10
    reader.found = KafkaError("no broker answered", code="_TRANSPORT", fix="Start it")
    made.try_groups(reader)
    clock.seconds += 130
    path = path_of("flights-to-pg")
    for body in (overview(made.view()), group_page(made.view(), path)):
        assert body is not None
        page = Page(body)
        assert "97,531" not in page.text
        assert "Nothing is known of the groups, since 2025-" in page.text
        assert "(2 min ago): no broker answered" in page.text
        assert not page.found("polyline")
    reader.found = [group("flights-to-pg", [1240], end=98765)]
    made.read_groups(reader)
    page = Page(overview(made.view()))
    assert "97,525" in page.text
    assert "no broker answered" in page.text  # among the last errors
    assert len(page.found("polyline")) == 2  # lag and rate until the gap, which has no line


def test_a_group_that_vanishes_is_named() -> None:
    """With when it was there last; its own page says so too, that of no group is not found."""
    made, reader, clock = watched([group("a"), group("b")])
    clock.seconds += 10
    reader.found = [group("a"), group("named", [])]
    made.read_groups(reader)
    view = made.view()
    page = Page(overview(view))
    assert "b: held offsets until 2025-" in page.text
    assert "holds no offsets" in page.text
    assert "no longer there" in of_group(view, "b").text
    assert group_page(view, path_of("never")) is None


def test_a_page_of_many_groups_has_a_limit() -> None:
    """200 groups of 100 partitions, with an hour of history: several pages, of a bounded size."""
    names = [f"crowd-{number}" for number in range(200)]
    made, reader, _ = watched([group(name, [1]) for name in names], times=360)
    reader.found = [group(name, range(100), end=1000) for name in names]
    made.read_groups(reader)
    seen: set[str] = set()
    for number in (1, 2, 3, 4):
        body = overview(made.view(), number)
        assert len(body) < 400_000
        page = Page(body)
        shown = re.findall(r"crowd-\d+", page.text)
        assert len(shown) == AT_ONCE + 1  # its title names the gravest of all
        seen |= set(shown)
        assert f"page {number} of 4" in page.text
    assert len(seen) == 200
    assert overview(made.view(), 9) == overview(made.view(), 4)


def test_a_group_of_many_partitions_has_a_limit() -> None:
    """Those that are furthest behind; where the others are is said."""
    made, _, _ = watched([group("wide", range(3000), end=3000)])
    text = of_group(made.view(), "wide").text
    assert "flights-0" in text
    assert "flights-2999" not in text
    assert "and 2,500 more partitions" in text


def test_the_page_needs_nothing_from_outside() -> None:
    """No address of another server in what is sent; without JavaScript it reloads itself."""
    made, _, _ = watched([group("g")])
    body = overview(made.view())
    assert b"//" not in body.replace(b"<!DOCTYPE", b"")
    (reload,) = [one for one in Page(body).found("meta") if one.get("http-equiv")]
    assert (reload["http-equiv"], reload["content"]) == ("refresh", "10")


AUDIT, READ = "audit --checkpoint CHECKPOINT", "preflight"


@pytest.mark.parametrize(
    ("given", "kind", "command"),
    [
        ({"verdict": LagVerdict.STALL}, "STALL", AUDIT),
        ({"verdict": STOP}, "STOP", AUDIT),
        ({"verdict": LagVerdict.REWIND}, "REWIND", AUDIT),
        ({"offsets": (9,) * 5, "withheld": True}, "withheld", AUDIT),
        ({"offsets": ()}, "holds no offsets", READ),
        ({"offsets": (), "error": "NOT_COORDINATOR"}, "not read", READ),
    ],
)
def test_what_is_wrong_has_a_command(given: dict[str, Any], kind: str, command: str) -> None:
    """For this cluster, this group, and the checkpoint where it is known, quoted for a shell."""
    for checkpoint, shown in ((None, "CHECKPOINT"), ("/my data", "'/my data'")):
        found = alarm(group("a b", **given), CLUSTER, checkpoint)
        assert found is not None
        assert found.kind == kind
        typed = f"eo-listener {command.replace('CHECKPOINT', shown)} -b {SERVERS} -g 'a b'"
        assert found.commands == (typed,)


def test_what_was_given_to_this_command_belongs_into_the_printed_ones() -> None:
    """A login into each, and what opens a checkpoint where one is read; each can be typed."""
    cluster = ClusterCommands(servers=SERVERS, client=True, storage=True)
    one = held_up("-odd's $name")
    found = alarm(one, cluster, "s3://bucket/c")
    unread = alarm(replace(one, error="GROUP_AUTHORIZATION_FAILED"), cluster, None)
    assert found is not None
    assert unread is not None
    assert found.commands[1].startswith(f"eo-listener txn list -b {SERVERS} ")
    typed = [*found.commands, *unread.commands]
    typed.append(cluster.typed(["status"], arguments=[one.group]))
    audit, *others = typed
    assert audit.endswith("(with the same -X and --storage)")
    assert all(command.endswith("(with the same -X)") for command in others)
    for command in typed:
        require_typable(command)


def held_up(name: str) -> GroupStatus:
    """A group that has stopped before an open transaction."""
    one = group(name, verdict=STOP)
    return replace(one, rows=tuple(replace(row, stable_end=8) for row in one.rows))
