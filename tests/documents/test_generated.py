"""The generated pages are what the code says now, and lack nothing of it."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter

import pytest

import eo_listener
from eo_listener.errors import EoListenerError
from eo_listener.follow.notices import NoticeKind
from tests.documents.__main__ import PAGES
from tests.documents.explained import alert_sections, error_classes, explained, guard_texts
from tests.documents.log_lines import (
    ALERTS,
    PACKAGE,
    is_sentence,
    lines_of_events,
    notices,
    other_lines,
)
from tests.documents.markdown import DOCS, ROOT, anchor
from tests.documents.public_names import node_of, public_names, things, types_in
from tests.python_source import tree_of


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_up_to_date(page: str) -> None:
    """As `make docs` writes it; no heading stands twice, so that anchors are stable."""
    text = (DOCS / page).read_text()
    assert text == PAGES[page](), "type: make docs"
    headings = Counter(map(anchor, re.findall(r"^#+ (.*)$", text, re.MULTILINE)))
    assert not [heading for heading, count in headings.items() if count > 1]


def test_each_public_name_is_described() -> None:
    """All that `eo_listener` exports, and every package in PUBLIC; by a docstring of its own."""
    names = public_names()
    assert {name for name in eo_listener.__all__ if name != "__version__"} == set(
        names["eo_listener"]
    )
    assert not [
        one for one in eo_listener.PUBLIC if not any(name.startswith(one) for name in names)
    ]
    described = [thing for thing in things() if inspect.isclass(thing) or inspect.isfunction(thing)]
    assert len(described) > 50
    nodes = [node for thing in described if (node := node_of(thing)) is not None]
    assert len(nodes) == len(described)
    assert not [node.name for node in nodes if not ast.get_docstring(node)]


# What signatures name of us and users do not import: they are given the two first, and write the
# last as text.
GIVEN = {"ExactlyOnce", "LedgerPlace", "MaintenanceStep", "WriteMethod"}


def test_the_site_describes_each_public_name() -> None:
    """By itself, or with its whole module; the strict build of the site finds the others."""
    page = (DOCS / "reference" / "python.md").read_text()
    directives = set(re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE))
    assert len(directives) > 20
    names = public_names()
    assert directives == {
        *(f"eo_listener.{name}" for name in names["eo_listener"]),
        *(module for module in names if module != "eo_listener"),
    }


def test_signatures_speak_of_public_names() -> None:
    """A class of ours that is the type of an argument, an answer or a field is public too."""
    public = {name for names in public_names().values() for name in names}
    nodes = [node for thing in things() if (node := node_of(thing)) is not None]
    types = " ".join(text for node in nodes for text in types_in(node))
    named = set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", types))
    defined = {
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef)
    }
    assert len(named & defined) > 20
    assert not (named & defined) - public - GIVEN


def test_each_error_class_has_a_section() -> None:
    """Every class of the package that is an error of ours, under its own name."""
    source = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    named = set(re.findall(r"^class ([A-Z]\w+Error)\((?!Exception|Event)", source, re.MULTILINE))
    assert len(named) > 30
    assert not named - {one.__name__ for one in error_classes()}


def test_an_error_says_why_and_what_to_type() -> None:
    """In its docstring, in that of the class above it, or in the texts of the guard."""
    assert not [
        error
        for error in error_classes()
        if error is not EoListenerError
        and not (
            explained(error).meaning
            and explained(error).commands
            and (
                explained(error).fix
                or explained(error.__bases__[0]).fix
                or list(guard_texts(error))
            )
        )
    ]


QUIET = {
    "Committed",
    "BatchReplayed",
    "QueryModeDetected",
    "OptionsRead",
}  # their lines ask for nothing


def test_each_event_that_warns_has_an_alert_or_a_fix() -> None:
    """So that nobody is left with a line alone; and each alert is in alerts.yml and on its page."""
    rules = (ROOT / "examples" / "monitoring" / "alerts.yml").read_text()
    names = re.findall(r"^ +- alert: (\w+)$", rules, re.MULTILINE)
    assert len(names) > 15
    assert names == list(alert_sections())
    assert not {alert for alerts in ALERTS.values() for alert in alerts} - set(names)
    lines = {kind.__name__: " ".join(texts) for kind, texts in lines_of_events().items()}
    assert len(lines) > 15
    assert not [kind for kind in lines.keys() - ALERTS.keys() - QUIET if "Fix" not in lines[kind]]
    assert not ALERTS.keys() - lines.keys()


def test_the_words_of_a_line_can_be_searched_for() -> None:
    """Whether they are the line's own or come with the event; a failed batch has its error's."""
    lines = {kind.__name__: texts for kind, texts in lines_of_events().items()}
    wordless = {kind for kind, texts in lines.items() if not any(map(is_sentence, texts))}
    assert wordless == {"BatchFailed"}
    assert len(lines["SourceIgnored"]) > 5


def test_no_other_logger_is_overlooked() -> None:
    """What warns does so by the name `logger`, and each such line is found; so are notices."""
    source = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    calls = re.findall(r"(\w*log\w*)\.(?:warning|error|exception)\(", source)
    assert set(calls) == {"logger"}
    assert len(list(other_lines())) >= len(calls)
    assert {kind for kind, _ in notices()} == {kind for kind in NoticeKind if kind.finding}
