"""What the log says: of each event, by the observer itself; all other lines, by their templates."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from eo_listener.follow.notices import NoticeKind
from eo_listener.model.events import Event
from eo_listener.observers.log import EventLogger
from tests.documents.markdown import ROOT
from tests.python_source import tree_of

PACKAGE = ROOT / "eo_listener"
LEFT_OUT = "…"  # a value that a line has in this place
_METHODS = {
    "warning": "WARNING",
    "error": "ERROR",
    "exception": "ERROR",
    "log": "WARNING",
}


@dataclass(frozen=True)
class LogLine:
    """A line of the log; `line` is where in the module it was written."""

    level: str
    text: str
    line: int


def said_of(events: Iterable[Event]) -> list[LogLine]:
    """What the observer writes when these events come one after the other, to a new log."""
    kept: list[LogLine] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append(LogLine(record.levelname, record.getMessage(), record.lineno))

    logger, keeper = logging.getLogger("eo_listener"), Keeper()
    before = logger.level, logger.propagate
    logger.addHandler(keeper)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        observer = EventLogger(clock=lambda: 0.0)
        for event in events:
            observer(event)
    finally:
        logger.removeHandler(keeper)
        logger.setLevel(before[0])
        logger.propagate = before[1]
    return kept


def template(expression: ast.expr) -> str:
    """The text of an expression, with a mark for each value that only a run has."""
    match expression:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(template, parts))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return template(left) + template(right)
        case _:
            return LEFT_OUT


@dataclass(frozen=True)
class OtherLine:
    """A line that is written without an event."""

    module: str
    level: str
    text: str
    has_traceback: bool


@cache
def other_lines() -> tuple[OtherLine, ...]:
    """Each warning and error of the package that is not the observer's, in the order of files."""
    return tuple(
        OtherLine(
            module=str(path.relative_to(PACKAGE)),
            level=_METHODS[method],
            text=_filled(call),
            has_traceback=method == "exception" or "exc_info" in keywords(call),
        )
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != PACKAGE / "observers" / "log.py"
        for call, method in _calls(tree_of(path))
    )


def keywords(call: ast.Call) -> Mapping[str, ast.expr]:
    """The named arguments of a call."""
    return {one.arg: one.value for one in call.keywords if one.arg}


def _calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="logger" | "_log"), attr=method)):
                if method in _METHODS:
                    yield node, method


def _filled(call: ast.Call) -> str:
    """The line's template with the constant ones among its values."""
    values = [one for one in call.args if template(one) != LEFT_OUT]
    return template(values[0]) if values else LEFT_OUT


@dataclass(frozen=True)
class NoticeText:
    """What `follow` reports of a checkpoint."""

    kind: NoticeKind
    what: str
    cause: str
    fix: str


@cache
def notices() -> tuple[NoticeText, ...]:
    """All that warn, in the order of the files."""
    found = [
        _notice(node, kind)
        for path in sorted((PACKAGE / "follow").glob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and (kind := _kind(node)) is not None and kind.finding
    ]
    return tuple(one for one in found if one is not None)


def _kind(call: ast.Call) -> NoticeKind | None:
    for one in (*call.args[:1], keywords(call).get("kind")):
        match one:
            case ast.Attribute(value=ast.Name(id="NoticeKind"), attr=name):
                return NoticeKind[name]
    return None


def _notice(call: ast.Call, kind: NoticeKind) -> NoticeText | None:
    given = dict(zip(("kind", "what", "cause", "fix"), call.args, strict=False))
    parts = {name: template(one) for name, one in (given | dict(keywords(call))).items()}
    if "fix" not in parts:
        return None
    return NoticeText(kind, parts["what"], parts["cause"], parts["fix"])
