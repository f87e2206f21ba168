"""docs/reference.md is what the docstrings say now, and lacks no public name."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter

import pytest

import eo_listener
from tests.documents.markdown import DOCS, anchor
from tests.documents.public_names import public_names, things
from tests.documents.reference import _node, reference
from tests.python_source import tree_of

PAGE = DOCS / "reference.md"


def test_it_is_up_to_date() -> None:
    """As `make docs` writes it."""
    assert PAGE.read_text() == reference(), "type: make docs"


def test_each_public_name_has_a_section() -> None:
    """All that `eo_listener` exports, and every package in PUBLIC."""
    sections = re.findall(r"^### (\w+)$", PAGE.read_text(), re.MULTILINE)
    assert {name for name in eo_listener.__all__ if name != "__version__"} <= set(sections)
    for package in eo_listener.PUBLIC:
        assert re.search(rf"^## {re.escape(package)}\b", PAGE.read_text(), re.MULTILINE), package
    assert {name for names in public_names().values() for name in names} == set(sections)


def test_anchors_are_stable() -> None:
    """No heading stands twice, so none gets a number."""
    found = re.findall(r"^#+ (.*)$", PAGE.read_text(), re.MULTILINE)
    assert not [name for name, count in Counter(map(anchor, found)).items() if count > 1]


@pytest.mark.parametrize(
    "thing",
    [one for one in things() if inspect.isclass(one) or inspect.isfunction(one)],
    ids=lambda thing: thing.__qualname__,
)
def test_it_says_what_it_is(thing: object) -> None:
    """Every public class and function has a docstring of its own."""
    node = _node(thing)
    assert node is not None
    assert ast.get_docstring(node)  # none that is inherited, or that a dataclass makes up


# What signatures name of us and users do not import: they are given the two first, and write the
# last as text.
GIVEN = {"ExactlyOnce", "MaintenanceStep", "WriteMethod"}


def test_signatures_speak_of_public_names() -> None:
    """A class of ours that an argument, an answer or a field has is in the reference too."""
    public = {name for names in public_names().values() for name in names}
    ours: set[str] = set()
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        ours |= set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", code))
    defined = {
        node.name
        for path in (DOCS.parent / "eo_listener").rglob("*.py")
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef)
    }
    assert len(ours & defined) > 20
    assert ours & defined - public <= GIVEN, ours & defined - public
