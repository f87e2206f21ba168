"""python.md: every public name, with its head as in the source, and its docstring."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any, Final

from eo_listener.model.errors import EoListenerError
from eo_listener.model.ledger_place import PlacedSink
from eo_listener.model.protocols import Sink
from tests.documents.explained import explain
from tests.documents.markdown import anchor, block, joined, link, point, rewrapped
from tests.documents.public_names import public_names
from tests.python_source import tree_of

_CALLED: Final = frozenset({"__call__"})  # of the methods with underscores, what users meet
_OF_A_SINK: Final = frozenset(
    name for one in (Sink, PlacedSink) for name in vars(one) if not name.startswith("_")
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def reference() -> str:
    """The whole page: what is written once stands in the template."""
    template = Template(Path(__file__).with_name("reference.template.md").read_text())
    modules = public_names()
    text = template.substitute(
        contents="\n".join(
            f"- [`{module}`](#{anchor(module)}): " + ", ".join(map(link, names))
            for module, names in modules.items()
        ),
        modules=joined(
            part for module, names in modules.items() for part in _module(module, names)
        ),
    )
    return "".join(map(rewrapped, text.splitlines(keepends=True)))


def _module(module: str, names: dict[str, Any]) -> Iterator[str]:
    yield f"## {module}"
    for name, thing in names.items():
        yield f"### {name}"
        node = node_of(thing)
        if node is None:
            yield from _alias(module, name)
        elif isinstance(node, ast.ClassDef):
            yield from _class(thing, node)
        else:
            yield from _function(thing, node)


def _alias(module: str, name: str) -> Iterator[str]:
    """A name for a type: as it is assigned in this module, or in one that is below it."""
    place = Path(inspect.getfile(importlib.import_module(module)))
    paths = place.parent.glob("*.py") if place.name == "__init__.py" else (place,)
    for path in paths:
        for node, below in itertools.pairwise(tree_of(path).body):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                assert isinstance(below, ast.Expr)
                assert isinstance(below.value, ast.Constant)
                yield block(ast.get_source_segment(path.read_text(), node) or "", "python")
                yield inspect.cleandoc(str(below.value.value))


def _class(thing: type, node: ast.ClassDef) -> Iterator[str]:
    methods = [one for one in node.body if isinstance(one, Function)]
    fields = [
        _lines(thing, one.lineno, one.end_lineno)
        for one in node.body
        if isinstance(one, ast.AnnAssign | ast.Assign) and not _is_private(one)
    ]
    made = [_head(thing, one) for one in methods if one.name == "__init__"]
    parts = [one.replace("def __init__", f"\n{node.name}").removesuffix(" -> None") for one in made]
    colon = ":" if fields and not parts else ""
    yield block([_head(thing, node) + colon, *(parts or fields)], "python")
    if issubclass(thing, EoListenerError):
        yield explain(thing.__doc__ or "").meaning
        yield f"Cause, fix and what to type: {link(thing.__name__, 'runbook.md')}."
        return
    yield inspect.cleandoc(thing.__doc__ or "")
    shown = [one for one in methods if _is_shown(one)]
    if thing is not Sink and {"apply", "applied"} <= {method.name for method in shown}:
        yield f"It has the methods of a {link('Sink')}."
        shown = [method for method in shown if method.name not in _OF_A_SINK]
    for method in shown:
        if not method.name.startswith("test_"):
            yield from _function(thing, method)
    tests = [point(ast.get_docstring(one) or "") for one in shown if one.name.startswith("test_")]
    if tests:
        yield "Its tests:"
        yield "\n".join(tests)


def _function(thing: Any, node: Function) -> Iterator[str]:
    yield block(_head(thing, node), "python")
    yield ast.get_docstring(node) or ""


def _is_shown(method: Function) -> bool:
    decorators = {ast.unparse(one) for one in method.decorator_list}
    shown = not method.name.startswith("_") or method.name in _CALLED
    described = ast.get_docstring(method) is not None or "property" in decorators
    return shown and described and "overload" not in decorators


def _is_private(node: ast.AnnAssign | ast.Assign) -> bool:
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    return ast.unparse(target).startswith("_")


def _head(thing: Any, node: ast.ClassDef | Function) -> str:
    """What stands before the docstring, without comments and `self`, which nobody passes."""
    first = min(one.lineno for one in (node, *node.decorator_list))
    text = _lines(thing, first, max(node.lineno, node.body[0].lineno - 1))
    text = re.sub(r"  # .*|\b(?:self|cls), |\n +self,(?=\n)|(?<=\()(?:self|cls)(?=\))", "", text)
    return textwrap.dedent(text).removesuffix(" ...").removesuffix(":")


def _lines(thing: Any, first: int, last: int | None) -> str:
    source = Path(inspect.getfile(thing)).read_text().splitlines()
    return "\n".join(source[first - 1 : last])


def node_of(thing: Any) -> ast.ClassDef | Function | None:
    """Where a class or function is defined; None for another thing."""
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return None
    for node in tree_of(Path(inspect.getfile(thing))).body:
        if isinstance(node, ast.ClassDef | Function) and node.name == thing.__name__:
            return node
    return None
