"""What a reader at night is told: by the docstring of an error, by the guard, by docs/alerts.md."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

from eo_listener.foreach_batch.batch_error_kinds import BatchErrorKind
from eo_listener.foreach_batch.batch_errors import BatchErrors, SinkLedger
from eo_listener.model.counted_sources import BATCHES
from eo_listener.model.errors import EoListenerError, GuardError
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.model.ledger_place import LedgerPlace
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.planned_batch import PlannedBatch
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


_QUERY, _SINK = "delays", "PostgreSQL table delays"
_LEDGER = SinkLedger("public.delays", LedgerPlace(address="LEDGER"))
_TOPIC = "Kafka topic delays at SERVERS"
_LEDGER_TOPIC = SinkLedger("delays", LedgerPlace(address="kafka:eo-ledger", servers="SERVERS"))
_TP, _RANGE = TopicPartition("flights", 0), OffsetRange(9000, 9500)
_BATCH = OffsetRange(41, 42)
# Whose head is found under another name, and which are about batches of what is not Kafka.
_NAMED_OTHERWISE = {
    BatchErrorKind.UNDER_OLD_NAME: LedgerKey("public.delays", "old-name"),
    BatchErrorKind.IN_OLD_TABLE: LedgerKey("public.old_table", _QUERY),
    BatchErrorKind.RENAMED: LedgerKey("public.delays", "old-name"),
}
_OF_BATCHES = {
    BatchErrorKind.OTHER_CHECKPOINT,
    BatchErrorKind.BATCH_BEHIND,
    BatchErrorKind.REPLANNED,
    BatchErrorKind.UNCOUNTED,
    BatchErrorKind.BATCH_GAP,
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


def guard_errors(error: type[EoListenerError]) -> Iterator[GuardError]:
    """What the guard of batches raises of a class, once for each of its reasons.

    Where a KafkaSink has words of its own, these too.
    """
    for kind in BatchErrorKind:
        if kind.value.error is error:
            yield _raised(kind, _SINK, _LEDGER)
            if kind.value.apart is not None:
                yield _raised(kind, _TOPIC, _LEDGER_TOPIC)


def _raised(kind: BatchErrorKind, sink: str, ledger: SinkLedger) -> GuardError:
    plan = PlannedBatch(
        query_id="0f8c2a11-9d0c-4f0e-8f6e-8d1f3a7b5c21",
        run_id="9b1d7e40-1a2b-4c3d-8e4f-5a6b7c8d9e0f",
        query=_QUERY,
        batch_id=41,
        sources={0: {_TP: _RANGE}},
        topic_ids={},
        log_starts={},
        log_ends={},
    )
    found = BatchErrors()
    key = _NAMED_OTHERWISE.get(kind)
    if key is not None:
        head = Head(
            range=_RANGE, topic_id=None, query_id=plan.query_id, run_id=plan.run_id, batch_id=40
        )
        found.name_old(kind, _TP, key, head, ledger.key)
    elif kind in _OF_BATCHES:
        found.add(kind, BATCHES, _BATCH)
    else:
        found.add(kind, _TP, _RANGE)
    try:
        found.raise_gravest(plan, name=_QUERY, sink=sink, ledger=ledger)
    except GuardError as error:
        return error
    raise AssertionError(kind)


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
    text = (DOCS / "alerts.md").read_text()
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
