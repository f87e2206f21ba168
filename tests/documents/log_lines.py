"""What the log says: of each event, by the observer itself; all other lines, by their templates."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from eo_listener.follow.notices import NoticeKind
from eo_listener.model.events import Event
from eo_listener.observers.log import EventLogger
from tests.documents.markdown import ROOT
from tests.python_source import tree_of
from tests.wording import is_literal, is_text, template

PACKAGE = ROOT / "eo_listener"
_LEVELS = {"warning": "WARNING", "error": "ERROR", "exception": "ERROR", "log": "WARNING"}


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


def other_lines() -> Iterator[tuple[str, str, str]]:
    """Level, text and module of each warning and error that is not the observer's."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(tree_of(path)) if module != "observers/log.py" else ():
            match node:
                case ast.Call(func=ast.Attribute(ast.Name("logger"), method), args=given):
                    if method in _LEVELS:
                        texts = [template(one) for one in given if is_literal(one)]
                        traced = method == "exception" or "exc_info" in _keywords(node)
                        level = _LEVELS[method] + (", with a traceback" if traced else "")
                        text = texts[0] if texts and is_text(texts[0]) else "the text of an error"
                        yield level, text, module


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {one.arg: one.value for one in call.keywords if one.arg}


def notices() -> Iterator[tuple[NoticeKind, dict[str, str]]]:
    """What `follow` reports of a checkpoint: `what`, `cause` and `fix` of each kind that warns."""
    for path in sorted((PACKAGE / "follow").glob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call):
                given: dict[str, Any] = dict(
                    zip(("kind", "what", "cause", "fix"), node.args, strict=False)
                )
                given |= _keywords(node)
                match given.get("kind"):
                    case ast.Attribute(ast.Name("NoticeKind"), name) if "fix" in given:
                        if NoticeKind[name].finding:
                            texts = {key: template(one) for key, one in given.items()}
                            yield NoticeKind[name], texts
