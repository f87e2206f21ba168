"""docs/reference.md: every public name, with its signature and its docstring."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
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

_WIDTH: Final = 100
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
        yield from _described(module, name, thing)


def _described(module: str, name: str, thing: Any) -> Iterator[str]:
    node = _node(thing)
    if node is None:
        yield from _alias(module, name)
    elif isinstance(node, ast.ClassDef):
        yield from _class(thing, node)
    else:
        yield block(signature(node, thing), "python")
        yield _text(thing)


def _alias(module: str, name: str) -> Iterator[str]:
    """A name for a type: as it is assigned in this module, or in one that is below it."""
    place = Path(inspect.getfile(importlib.import_module(module)))
    paths = place.parent.glob("*.py") if place.name == "__init__.py" else (place,)
    for path in paths:
        body = tree_of(path).body
        for node, below in itertools.pairwise(body):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                assert isinstance(below, ast.Expr)
                assert isinstance(below.value, ast.Constant)
                yield block(ast.get_source_segment(path.read_text(), node) or "", "python")
                yield inspect.cleandoc(str(below.value.value))


def _class(thing: type, node: ast.ClassDef) -> Iterator[str]:
    yield block(_class_head(thing, node), "python")
    if issubclass(thing, EoListenerError):
        yield explain(thing.__doc__ or "").meaning
        yield f"Cause, fix and what to type: {link(thing.__name__, 'runbook.md')}."
        return
    yield _text(thing)
    methods = [one for one in node.body if isinstance(one, Function) and _is_shown(one)]
    if thing is not Sink and {"apply", "applied"} <= {method.name for method in methods}:
        yield f"It has the methods of a {link('Sink')}."
        methods = [method for method in methods if method.name not in _OF_A_SINK]
    for method in methods:
        if not method.name.startswith("test_"):
            yield block(signature(method, thing), "python")
            yield _docstring(method)
    tests = [point(_docstring(one)) for one in methods if one.name.startswith("test_")]
    if tests:
        yield "Its tests:"
        yield "\n".join(tests)


def _docstring(method: Function) -> str:
    return inspect.cleandoc(ast.get_docstring(method) or "")


def _is_shown(method: Function) -> bool:
    overload = any(ast.unparse(one) == "overload" for one in method.decorator_list)
    shown = not method.name.startswith("_") or method.name in _CALLED
    said = ast.get_docstring(method) is not None or "property" in map(
        ast.unparse, method.decorator_list
    )
    return shown and not overload and said


def _class_head(thing: type, node: ast.ClassDef) -> str:
    """How it is made: its fields or members, or what its constructor takes."""
    bases = ", ".join(_source(thing, one) for one in node.bases)
    decorators = [f"@{_source(thing, one)}" for one in node.decorator_list]
    head = "\n".join([*decorators, f"class {node.name}" + (f"({bases})" if bases else "")])
    made = next(
        (one for one in node.body if isinstance(one, Function) and one.name == "__init__"), None
    )
    if made is not None:
        return head + "\n\n" + signature(made, thing).replace("def __init__", node.name, 1)
    lines = [
        "    " + _segment(thing, one)
        for one in node.body
        if isinstance(one, ast.AnnAssign | ast.Assign) and not _is_private(one)
    ]
    return head + (":\n" + "\n".join(lines) if lines else "")


def _is_private(node: ast.AnnAssign | ast.Assign) -> bool:
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    return ast.unparse(target).startswith("_")


def signature(node: Function, thing: Any) -> str:
    """As it stands in the source, without self; on one line where there is room."""
    given = list(_arguments(node, thing))
    if given and given[0] in ("self", "cls"):
        given = given[1:]
    answer = "" if node.returns is None else f" -> {_source(thing, node.returns)}"
    if node.name == "__init__":
        answer = ""
    kept = [f"@{name}\n" for name in map(ast.unparse, node.decorator_list) if name in _KEPT]
    begin = "".join(kept) + f"def {node.name}("
    line = f"{begin}{', '.join(given)}){answer}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([begin, *(f"    {one}," for one in given), f"){answer}"])


_KEPT: Final = frozenset({"property", "classmethod", "staticmethod", "contextmanager"})


def _arguments(node: Function, thing: Any) -> Iterator[str]:
    """Each argument as in the source, and the marks between kinds of them."""
    taken = node.args
    by_place = [*taken.posonlyargs, *taken.args]
    defaults = [None] * (len(by_place) - len(taken.defaults)) + list(taken.defaults)
    for number, (one, default) in enumerate(zip(by_place, defaults, strict=True), 1):
        yield _argument(thing, one, default)
        if number == len(taken.posonlyargs):
            yield "/"
    if taken.vararg:
        yield "*" + _argument(thing, taken.vararg, None)
    elif taken.kwonlyargs:
        yield "*"
    for one, default in zip(taken.kwonlyargs, taken.kw_defaults, strict=True):
        yield _argument(thing, one, default)
    if taken.kwarg:
        yield "**" + _argument(thing, taken.kwarg, None)


def _argument(thing: Any, one: ast.arg, default: ast.expr | None) -> str:
    text = one.arg if one.annotation is None else f"{one.arg}: {_source(thing, one.annotation)}"
    if default is None:
        return text
    equals = "=" if one.annotation is None else " = "
    return text + equals + _source(thing, default)


def _text(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "")


def _source(thing: Any, node: ast.AST) -> str:
    """What the source has there, on one line."""
    return " ".join(_segment(thing, node).split())


def _segment(thing: Any, node: ast.AST) -> str:
    """What the source has there: unparsed, it would be quoted as each Python likes it."""
    found = ast.get_source_segment(Path(inspect.getfile(thing)).read_text(), node)
    assert found is not None
    return found


def _node(thing: Any) -> ast.ClassDef | Function | None:
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return None
    name = thing.__name__
    for node in tree_of(Path(inspect.getfile(thing))).body:
        if isinstance(node, ast.ClassDef | Function) and node.name == name:
            return node
    return None
