"""Named places at which a test can interrupt the program; without a test nothing happens there.

The environment variable EO_LISTENER_FAULT_POINTS names a module with a function
`fault_point(name)`, which is then called at each of them. No such module is part of this package.
Crash points of the committer, in the order of a batch's way:

    listener.progress      Spark has reported a batch, and nothing was done with it
    router.before-route    it waits with us; its group is not known yet
    snapshot.before-request, snapshot.answered    the group is read
    commit.before-request  nothing was sent yet
    commit.after-request   the request is on its way, unanswered
    commit.answered        the group has it, the committer does not know yet
    close.before-drain, close.before-flush, close.after-flush    the end of the program
    bridge.greeted         the bridge of a driver runs, and has settings
    bridge.line            a line was sent to it that it has not read yet
    transaction.begun, transaction.offsets-sent, transaction.committed    mode "transactional"

And of exactly_once and its sinks, between Spark's plan and its commit log:

    batch.planned          exactly_once knows the ranges, and has read no ledger yet
    batch.judged           every ledger was read; nothing is written yet
    sink.staged            the executors have staged the rows; the transaction is not begun
                           (Iceberg: those of an upsert; there is a branch for the batch)
    sink.letters-staged    Iceberg: the dead letters of the batch are on a branch of their own, and
                           nothing of it in the table
    sink.fenced            Kafka: an older driver can no longer do anything; the ledger is not read
    sink.ledger-read       Kafka: it is compared next; the transaction is not begun
    sink.begun             the transaction is open, and holds the store's lock (Kafka without
                           transactions: the ends of its target are stored; Iceberg: there is a
                           branch for the batch)
    sink.tail-read         Kafka without transactions: what an earlier try has written is known
    sink.copying           some rows are written in it, others not
    sink.rows-written      all of them are; the ledger is not moved
    sink.ledger-moved      all that is lacking is COMMIT (Kafka without transactions: it is sent)
    sink.commit-sent       it is on its way, unanswered (SQLite, which has no way, and Iceberg: just
                           before it)
    sink.committed         the store has the batch, the sink does not say so yet
    sink.letters-published Iceberg: the dead letters of the batch are in their table too
    batch.applied          a sink has returned; Spark does not know yet
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Final

VARIABLE: Final = "EO_LISTENER_FAULT_POINTS"

_hook: Callable[[str], None] | None = None


def fault_point(name: str) -> None:
    """Call the hook of a test, if there is one; what it raises goes on to the caller."""
    if _hook is not None:
        _hook(name)


def arm(hook: Callable[[str], None] | None) -> None:
    """Call `hook` from now on, in this process; None stops that."""
    global _hook  # noqa: PLW0603  # one test at a time arms the whole process, on purpose
    _hook = hook


def arm_from_environment() -> None:
    """Import the module that the environment names, if it names one.

    Raises ImportError or AttributeError when it cannot be used: a test that arms nothing must not
    pass.
    """
    module = os.environ.get(VARIABLE)
    if module:
        arm(importlib.import_module(module).fault_point)


arm_from_environment()
