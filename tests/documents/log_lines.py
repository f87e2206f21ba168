"""What the log says, by the templates of its lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, Final

from eo_listener import events
from eo_listener.commit.tracking import group_names
from eo_listener.events import Event
from eo_listener.follow.notices import NoticeKind
from tests.documents.markdown import ROOT
from tests.python_source import tree_of
from tests.wording import is_literal, is_text, template, texts_of

PACKAGE = ROOT / "eo_listener"
_TRACKING = PACKAGE / "commit" / "tracking"
_PARTS: Final = {"problem": "", "cause": "Cause: ", "fix": "Fix: "}
_FEWEST_WORDS = 4  # fewer are a part of a line, or only say of what it is
_LEVELS = {"warning": "WARNING", "error": "ERROR", "exception": "ERROR", "log": "WARNING"}


ALERTS: Final[dict[str, tuple[str, ...]]] = {
    "BatchApplied": ("EoListenerRowsLost", "EoListenerDeadLetters"),
    "BatchFailed": ("EoListenerSinkBatchFailed",),
    "CommitAbandoned": ("EoListenerGroupIncident",),
    "CommitFailed": ("EoListenerCommitsFail", "EoListenerCommitErrorRate"),
    "CommitRefused": ("EoListenerCommitsRefused",),
    "CommitterFenced": ("EoListenerSomebodyElseCommits",),
    "ForeignCommit": ("EoListenerSomebodyElseCommits",),
    "GroupOffsetsMissing": ("EoListenerGroupIncident",),
    "GuardViolation": ("EoListenerBatchesDoNotContinue", "EoListenerSourceWithheld"),
    "InternalError": ("EoListenerInternalError",),
    "PartitionsShared": ("EoListenerGroupIncident",),
    "ProgressEventsMissed": ("EoListenerProgressEventsMissed",),
    "QueryStateLost": ("EoListenerRowsLost",),
    "SourceIgnored": ("EoListenerSourceIgnored",),
    "TopicRecreated": ("EoListenerTopicRecreated",),
}
"""Which alerts an event fires, whose commands are then what to type."""


def lines_of_events() -> dict[type[Event], list[str]]:
    """The sentences that the observer writes of each event, in the order of the events."""
    found: dict[str, list[str]] = {}
    tree = tree_of(PACKAGE / "observers" / "log.py")
    tables = {
        ast.unparse(node.targets[0]): node for node in tree.body if isinstance(node, ast.Assign)
    }
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(
                args=ast.arguments(args=[*_, ast.arg(annotation=ast.Attribute(attr=of))])
            ):
                used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
                parts = [node, *(tables[name] for name in sorted(used & tables.keys()))]
            case ast.match_case(pattern=ast.MatchClass(cls=ast.Attribute(attr=of))):
                parts = node.body
            case _:
                continue
        module = ast.Module(body=parts, type_ignores=[])
        found.setdefault(of, []).extend(text.replace("{event.", "{") for text in texts_of(module))
    found["SourceIgnored"] += reasons()
    found["QueryModeDetected"] += texts_of(tree_of(_TRACKING / "query_run.py"))
    return {
        kind: list(dict.fromkeys(filter(is_sentence, texts))) or texts
        for kind in vars(events).values()
        if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
        if (texts := found.get(kind.__name__))
    }


def reasons() -> Iterator[str]:
    """What the line of an ignored source says: its problem, cause and fix, if they are texts."""
    for name in ("group_names.py", "routing.py"):
        for node in ast.walk(tree_of(_TRACKING / name)):
            match node:
                case ast.Call(ast.Name("NotCommitted" | "SourceIgnored"), args):
                    given = dict(zip(_PARTS, args, strict=False)) | _keywords(node)
                    texts = {part: template(given[part]) for part in _PARTS if part in given}
                    if is_text(texts["problem"]):
                        line = ". ".join(
                            f"{_PARTS[part]}{text}"
                            for part, text in texts.items()
                            if is_literal(given[part])
                        )
                        line = line.replace("{GROUP_OPTION}", group_names.GROUP_OPTION)
                        yield line.replace("{OWN_GROUP_OPTION}", group_names.OWN_GROUP_OPTION)


def is_sentence(text: str) -> bool:
    return len(re.findall(r"[A-Za-z]{3,}", re.sub(r"\{.*?\}", "", text))) >= _FEWEST_WORDS


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
    """What `follow` reports of a checkpoint: `text`, `cause` and `fix` of each kind that warns."""
    for path in sorted((PACKAGE / "follow").glob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call):
                given: dict[str, Any] = dict(
                    zip(("kind", "text", "cause", "fix"), node.args, strict=False)
                )
                given |= _keywords(node)
                match given.get("kind"):
                    case ast.Attribute(ast.Name("NoticeKind"), name) if "fix" in given:
                        if NoticeKind[name].finding:
                            texts = {key: template(one) for key, one in given.items()}
                            yield NoticeKind[name], texts
