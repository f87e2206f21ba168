"""What a reader at night is told: by the docstring of an error, by the guard, by alerts.md."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

from eo_listener.batch_guard.error_kinds import MOVE_BACK, BatchErrorKind
from eo_listener.errors import EoListenerError
from tests.documents.markdown import DOCS, ROOT
from tests.python_source import tree_of

_LABELS = ("Cause", "Fix", "Type")


@dataclass(frozen=True)
class Explained:
    """The parts of a docstring; `commands` are its lines that begin with `Type:`."""

    meaning: str
    cause: str = ""
    fix: str = ""
    commands: tuple[str, ...] = field(default=())


def explain(docstring: str) -> Explained:
    """Take a docstring apart; a label that stands twice, but for Type, is a mistake."""
    text = inspect.cleandoc(docstring)
    first, *labelled = re.split(rf"^(?=(?:{'|'.join(_LABELS)}): )", text, flags=re.MULTILINE)
    found: dict[str, list[str]] = {label: [] for label in _LABELS}
    for part in labelled:
        label, _, said = part.partition(": ")
        found[label].append(" ".join(said.split()))
    assert len(found["Cause"]) < 2, docstring
    assert len(found["Fix"]) < 2, docstring
    return Explained(
        meaning=first.strip(),
        cause="".join(found["Cause"]),
        fix="".join(found["Fix"]),
        commands=tuple(found["Type"]),
    )


# What the texts of the guard have in their places.
_PLACES = {
    "name": '"QUERY"',
    "old": '"OLD"',
    "consent": '"..."',
    "rename": " by ledger rename",
    "move": " by ledger rename",
    "accept": "each by ledger accept; or ",
    "back": MOVE_BACK,
}


@cache
def error_classes() -> tuple[type[EoListenerError], ...]:
    """All of them, a base class before what is made of it, in the order of the files."""
    for path in sorted((ROOT / "eo_listener").rglob("*.py")):
        tree = tree_of(path)
        if any(isinstance(node, ast.ClassDef) and _is_error(node) for node in tree.body):
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    return tuple(_with_subclasses(EoListenerError))


def _is_error(node: ast.ClassDef) -> bool:
    return node.name.endswith("Error") and not node.name.startswith("_")


def _with_subclasses(one: type[EoListenerError]) -> Iterator[type[EoListenerError]]:
    yield one
    for below in one.__subclasses__():
        if below.__module__.startswith("eo_listener."):
            yield from _with_subclasses(below)


def explained(error: type[EoListenerError]) -> Explained:
    """What its docstring says; the commands, where it has none, are those of its base class."""
    own = explain(error.__doc__ or "")
    base = error.__bases__[0]
    if own.commands or not issubclass(base, EoListenerError):
        return own
    return replace(own, commands=explained(base).commands)


def guard_texts(error: type[EoListenerError]) -> Iterator[str]:
    """What the guard of batches says with a class, once for each reason and kind of ledger."""
    for kind in BatchErrorKind:
        if kind.value.error is error:
            for text in dict.fromkeys(kind.value.text(apart=apart) for apart in (False, True)):
                yield f"{text.problem}. Cause: {text.cause}. Fix: {text.fix.format(**_PLACES)}"


@dataclass(frozen=True)
class AlertSection:
    """One alert: how urgent it is, what it means, and what to type."""

    name: str
    severity: str
    meaning: str
    commands: tuple[str, ...]


@cache
def alert_sections() -> dict[str, AlertSection]:
    """All of the page, in its order, by their names."""
    text = (DOCS / "reference" / "alerts.md").read_text()
    parts = re.split(r"^### (EoListener\w+)$", text, flags=re.MULTILINE)
    return {
        name: _section(name, said.partition("\n## ")[0])
        for name, said in zip(parts[1::2], parts[2::2], strict=True)
    }


def _section(name: str, text: str) -> AlertSection:
    severity, meaning = re.findall(r"\A\s*\((\w+)\) (.*?)(?:\n\n|```|\Z)", text, re.DOTALL)[0]
    commands = re.findall(r"^ *(eo-listener .*)$", text, re.MULTILINE)
    plain = " ".join(meaning.split())  # a colon at its end leads to the commands
    return AlertSection(name, severity, re.sub(r":$", ".", plain), tuple(commands))
