"""docs/reference/runbook.md: the meaning of errors, alerts and log lines, and their commands."""

from __future__ import annotations

import inspect
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Final

from eo_listener.errors import EoListenerError
from eo_listener.model import kafka_errors
from tests.documents.explained import alert_sections, error_classes, explained, guard_texts
from tests.documents.log_lines import ALERTS, lines_of_events, notices, other_lines
from tests.documents.markdown import (
    WHOLE_WORDS,
    block,
    joined,
    link,
    plain,
    point,
    rewrapped,
    table,
    wrapped,
)
from tests.wording import is_text

_LOG_WIDTH: Final = 110


def runbook() -> str:
    """The whole page: what is written once stands in the template."""
    template = Template(Path(__file__).with_name("runbook.template.md").read_text())
    text = template.substitute(
        error_links=", ".join(link(one.__name__) for one in error_classes()),
        line_links=", ".join(link(kind.__name__) for kind in lines_of_events()),
        alerts=_alerts(),
        errors=joined(part for error in error_classes() for part in _error(error)),
        lines=joined(_lines()),
        kafka=_kafka(),
        follow=_follow(),
        others=_others(),
    )
    return "".join(map(rewrapped, text.splitlines(keepends=True)))


def _alerts() -> str:
    lines = defaultdict(list)
    for kind, alerts in ALERTS.items():
        for alert in alerts:
            lines[alert].append(link(kind))
    return table(
        ("alert", "", "what it means", "its log lines"),
        (
            (link(one.name, "alerts.md"), one.severity, one.meaning, ", ".join(lines[one.name]))
            for one in alert_sections().values()
        ),
    )


def _error(error: type[EoListenerError]) -> Iterator[str]:
    found = explained(error)
    yield f"### {error.__name__}"
    yield found.meaning
    said = [(label, text) for label, text in (("Cause", found.cause), ("Fix", found.fix)) if text]
    base = error.__bases__[0]
    kind = f"A kind of {link(base.__name__)}; e" if issubclass(base, EoListenerError) else "E"
    ends = f"{kind}nds a command with exit status {error.exit_code}."
    yield "\n".join([*(point(f"{label}: {text}") for label, text in said), point(ends)])
    texts = list(guard_texts(error))
    if texts:
        yield "Its text is one of these, with partitions and offsets:"
        yield _quoted(texts)
    if found.commands:
        yield "Run:"
        yield block(found.commands)


def _lines() -> Iterator[str]:
    for kind, texts in lines_of_events().items():
        yield f"### {kind.__name__}"
        yield inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
        yield _quoted(texts) if texts else "Its line is the text of an error, or Spark's."
        alerts = ALERTS.get(kind.__name__, ())
        if alerts:
            lines = [line for one in alerts for line in alert_sections()[one].commands]
            links = ", ".join(link(one, "alerts.md") for one in alerts)
            yield wrapped(f"Alert: {links}. Run:")
            yield block(dict.fromkeys(lines))


def _kafka() -> str:
    codes: dict[kafka_errors.ErrorMeaning, list[str]] = {}
    for code, meaning in sorted(kafka_errors._MEANINGS.items()):
        codes.setdefault(meaning, []).append(f"`{code}`")
    rows = [
        (
            ", ".join(names) + ("" if one is meaning else " after a minute"),
            plain(one.cause),
            plain(one.fix),
        )
        for meaning, names in codes.items()
        for one in (meaning, meaning.persistent)
        if one is not None
    ]
    return table(("error", "cause", "fix"), rows)


def _follow() -> str:
    return table(
        ("", "it says", "cause", "fix"),
        (
            (kind.name.lower().replace("_", " "), *(plain(it[key]) for key in _OF_NOTICES))
            for kind, it in sorted(notices(), key=lambda one: one[0].name)
            if is_text(it["fix"])
        ),
    )


_OF_NOTICES: Final = ("text", "cause", "fix")


def _others() -> str:
    rows = {(level, plain(text), f"`{module}`") for level, text, module in other_lines()}
    head = ("level", "line", "written by")
    return table(head, sorted(rows, key=lambda row: (row[2], row[1])))


def _quoted(texts: list[str]) -> str:
    """Lines as they are, cut to a width that a page has room for."""
    return block("\n\n".join(textwrap.fill(text, _LOG_WIDTH, **WHOLE_WORDS) for text in texts))
