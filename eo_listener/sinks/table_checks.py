"""The checks that several sinks share: of a table's ledgers, and of the rights on its files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from eo_listener.errors import few
from eo_listener.model.check_finding import CheckFinding, Findings, fine, note, problem
from eo_listener.model.ledger import StoredLedger
from eo_listener.spark.checkpoint.location import shown


def judge_absent(about: str, sink: str, *, create: bool, form: str = "") -> CheckFinding:
    """Return the finding about a table that does not exist.

    `form` is the form in which the sink creates the table, such as ", in format 2".
    """
    if create:
        return fine(about, f"it does not exist: the first batch creates it{form}")
    return problem(
        about,
        "it does not exist, and with create=False no batch creates it",
        f"create it, or remove create=False from {sink}",
    )


def judge_storage(about: str, location: str) -> CheckFinding:
    """Return the finding about this user's right to write to the URI `location`.

    If a local folder or file does not exist, the rights of its nearest existing parent count.
    """
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return note(
            about,
            f"this user's permission to write to {shown(location)} was not tried; the first batch "
            "tries it",
        )
    folder = Path(unquote(parts.path))
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if os.access(folder, os.W_OK | os.X_OK if folder.is_dir() else os.W_OK):
        return fine(about, f"this user may write to {folder}")
    return problem(
        about,
        f"this user may not write to {folder}",
        "allow the user of the driver and the executors to write there",
    )


def judge_ledgers(about: str, query: str | None, stored: Iterable[StoredLedger]) -> Findings:
    """Yield the findings about a sink's ledgers; `query` is the query's name, if it is known."""
    ledgers = {ledger.key.query: ledger for ledger in stored}
    if not ledgers:
        yield fine(about, "it has no ledger yet: the first batch creates it")
        return
    if query is not None and query not in ledgers:
        yield note(
            about,
            f"it has no ledger of {query!r}, but of {few(sorted(map(repr, ledgers)))}",
            "if the query has a new name, use the old one: exactly_once(..., name=...)",
        )
    for name, ledger in sorted(ledgers.items()):
        if query in (None, name):
            yield _ledger(about, name, ledger)


def _ledger(about: str, query: str, stored: StoredLedger) -> CheckFinding:
    if stored.rollback is not None:
        cause, fix = stored.rollback
        restart = (
            f'starting_offsets(ledger=sink, query="{query}", bootstrap_servers=...) with a new '
            "checkpointLocation reads those offsets again"
        )
        advice = f"{fix}; or {restart}" if fix else restart
        return problem(about, f"ledger of {query!r}: {cause}", advice)
    heads = [f"{tp} at {head.range.until}" for tp, head in sorted(stored.heads.items())]
    return fine(about, f"the ledger of {query!r} has {few(heads)}")
