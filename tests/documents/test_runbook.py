"""docs/runbook.md is what the code says now, and lacks nothing of it."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from eo_listener.follow.notices import NoticeKind
from eo_listener.model.errors import EoListenerError
from eo_listener.model.events import Event
from eo_listener.observers import log
from tests.documents import example_events
from tests.documents.alert_sections import alert_sections
from tests.documents.error_classes import error_classes, explained, guard_errors
from tests.documents.explained import explain
from tests.documents.log_lines import PACKAGE, notices, other_lines, said_of
from tests.documents.markdown import DOCS, ROOT, anchor
from tests.documents.runbook import runbook
from tests.python_source import tree_of

PAGE = DOCS / "runbook.md"
EXAMPLES = (
    *example_events.of_groups(),
    *example_events.of_queries(),
    *example_events.of_sinks(),
    *example_events.of_ourselves(),
)


def headings() -> list[str]:
    return re.findall(r"^#+ (.*)$", PAGE.read_text(), re.MULTILINE)


def test_it_is_up_to_date() -> None:
    """As `make docs` writes it."""
    assert PAGE.read_text() == runbook(), "type: make docs"


def test_each_error_class_has_a_section() -> None:
    """Every class of the package that is an error of ours, under its own name."""
    named = {
        found
        for path in PACKAGE.rglob("*.py")
        for found in re.findall(
            r"^class (\w+Error)\((?!Exception|Event)", path.read_text(), re.MULTILINE
        )
        if not found.startswith("_")
    }
    assert len(named) > 30
    assert named <= {one.__name__ for one in error_classes()}
    assert {one.__name__ for one in error_classes()} <= set(headings())


@pytest.mark.parametrize("error", error_classes(), ids=lambda error: error.__name__)
def test_an_error_says_why_and_what_to_type(error: type[EoListenerError]) -> None:
    """In its docstring, in that of the class above it, or in the texts of the guard."""
    found = explained(error)
    assert found.meaning
    if error is not EoListenerError:
        assert found.commands
        assert found.fix or explained(error.__bases__[0]).fix or list(guard_errors(error))


def test_each_event_has_its_lines() -> None:
    """There is an example of every class of events."""
    shown = {type(event).__name__ for events in EXAMPLES for event in events}
    ours = {one.__name__ for one in Event.__subclasses__() if one.__module__ == Event.__module__}
    assert len(ours) > 15
    assert ours <= shown, ours - shown


def test_each_line_of_the_observer_is_reached() -> None:
    """Every place where it writes is one that an example leads to."""
    lines = {line.line for events in EXAMPLES for line in said_of(events)}
    calls = [
        node
        for node in ast.walk(tree_of(PACKAGE / "observers" / "log.py"))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    written = [call for call in calls if getattr(call.func, "id", "") == log._say.__name__]
    assert len(written) > 10
    for call in written:
        assert lines & set(range(call.lineno, (call.end_lineno or 0) + 1)), call.lineno


def test_each_alert_is_in_the_table() -> None:
    """All of alerts.yml; and what fires one is an event that warns."""
    rules = (ROOT / "examples" / "monitoring" / "alerts.yml").read_text()
    names = re.findall(r"^ +- alert: (\w+)$", rules, re.MULTILINE)
    assert len(names) > 15
    assert re.findall(r"^\| \[(EoListener\w+)\]", PAGE.read_text(), re.MULTILINE) == names
    for kind, alerts in example_events.ALERTS.items():
        assert set(alerts) <= set(alert_sections()), kind


def test_each_event_that_warns_has_an_alert_or_a_fix() -> None:
    """So that nobody is left with a line alone."""
    for events in EXAMPLES:
        for line in said_of(events):
            if line.level in {"WARNING", "ERROR"}:
                assert "Fix: " in line.text or type(events[0]) in example_events.ALERTS, line.text


def test_no_other_logger_is_overlooked() -> None:
    """What warns does so by the name `logger` or `_log`, and each such line is found."""
    calls = Counter(
        name
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r"(\w*log\w*)\.(?:warning|error|exception)\(", path.read_text())
    )
    assert set(calls) == {"logger"}
    assert (
        len([one for one in other_lines() if one.module != "follow/notices.py"]) >= calls["logger"]
    )


def test_each_notice_of_follow_is_there() -> None:
    """Every kind that warns."""
    assert {one.kind for one in notices()} == {kind for kind in NoticeKind if kind.finding}


def test_anchors_are_stable() -> None:
    """No heading stands twice, so none gets a number; that of an error is its name."""
    twice = [name for name, count in Counter(map(anchor, headings())).items() if count > 1]
    assert not twice


def test_a_docstring_is_taken_apart() -> None:
    """Paragraphs in front, then cause, fix over several lines, and commands."""
    found = explain("""What.

        More: of it.

        Cause: this
        and that.
        Fix: do.
        Type: eo-listener jar
        Type: java -version
        """)
    assert found.meaning == "What.\n\nMore: of it."
    assert (found.cause, found.fix) == ("this and that.", "do.")
    assert found.commands == ("eo-listener jar", "java -version")
    with pytest.raises(AssertionError):
        explain("What.\n\nCause: a.\nCause: b.")
