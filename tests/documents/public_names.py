"""The names that users may import, and where each is defined."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import eo_listener
from tests.python_source import tree_of, tree_of_text

# Of a public package that exports no names itself, the modules that are public. CONTRIBUTING.md
# says it in words; a test holds that signatures and fields speak of nothing else.
MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "eo_listener.model": (
        "batch_metrics",
        "protocols",
        "check_finding",
        "ledger",
        "planned_batch",
        "commit_metadata",
    ),
    "eo_listener.observers": ("log", "metrics", "metrics.opentelemetry", "metrics.prometheus"),
    "eo_listener.testing": ("conformance", "made_up_entries"),
}


@cache
def public_names() -> dict[str, dict[str, Any]]:
    """The public names of each module, in the order of the reference."""
    found = {"eo_listener": _exported(eo_listener)}
    for package in sorted(eo_listener.PUBLIC):
        module = importlib.import_module(package)
        if hasattr(module, "__all__"):
            found[package] = _exported(module)
        elif not hasattr(module, "__path__"):
            found[package] = _own(module)
        for name in MODULES.get(package, ()):
            inner = importlib.import_module(f"{package}.{name}")
            found[inner.__name__] = _exported(inner) if hasattr(inner, "__all__") else _own(inner)
    return found


def _exported(module: ModuleType) -> dict[str, Any]:
    return {name: getattr(module, name) for name in module.__all__ if not name.startswith("__")}


def _own(module: ModuleType) -> dict[str, Any]:
    """The classes that a module defines, and the types that it names; not what it calculates."""
    return {
        name: thing
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (
            (inspect.isclass(thing) and thing.__module__ == module.__name__)
            or name in _aliases(module)
        )
    }


def _aliases(module: ModuleType) -> set[str]:
    """What is assigned in a module and has a docstring below."""
    body = tree_of_text(inspect.getsource(module)).body
    return {
        ast.unparse(node.targets[0])
        for node, below in itertools.pairwise(body)
        if isinstance(node, ast.Assign)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
    }


def things() -> Iterator[Any]:
    for names in public_names().values():
        yield from names.values()


def node_of(thing: Any) -> ast.ClassDef | ast.FunctionDef | None:
    """Return the definition of a class or function, None for another thing."""
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return None
    for node in tree_of(Path(inspect.getfile(thing))).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == thing.__name__:
            return node
    return None


def types_in(node: ast.ClassDef | ast.FunctionDef) -> Iterator[str]:
    """Yield the types of a definition: of public methods' arguments and answers, of fields."""
    for inner in [node, *node.body]:
        match inner:
            case ast.FunctionDef(name=name) if not name.startswith("_") or name == "__init__":
                arguments = inner.args
                every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                yield from (ast.unparse(arg.annotation) for arg in every if arg.annotation)
                yield ast.unparse(inner.returns) if inner.returns else ""
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                yield ast.unparse(inner.annotation)
