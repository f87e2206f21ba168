"""Named places at which a test can interrupt the program; outside tests nothing happens there.

The environment variable EO_LISTENER_FAULT_POINTS names a module with a function
`fault_point(name)`, which eo_listener then calls at each place. This package has no such module.
The fault points of the committer, in the order in which a batch reaches them:

    listener.progress      Spark has reported a batch, and nothing was done with it
    router.before-route    the batch waits in the router; its group is not known yet
    snapshot.before-request, snapshot.answered    before and after the group is read
    commit.before-request  nothing was sent yet
    commit.after-request   the request is on its way, unanswered
    commit.answered        the group has the offsets; the committer does not know this yet
    close.before-drain, close.before-flush, close.after-flush    the end of the program
    bridge.greeted         the bridge of a driver runs, and has its settings
    bridge.line            a line of the driver has reached the bridge, which has not parsed it yet
    transaction.begun, transaction.offsets-sent, transaction.committed    mode "transactional"

The fault points of exactly_once and its sinks, between Spark's plan and its commit log:

    batch.planned          exactly_once knows the ranges, and has read no ledger yet
    batch.judged           every ledger was read; nothing is written yet
    sink.staged            the executors have staged the rows; the transaction is not begun
                           (Iceberg: the rows of an upsert; there is a branch for the batch)
    sink.letters-staged    Iceberg: the dead letters of the batch are on a separate branch, and the
                           table has nothing of the batch
    sink.fenced            Kafka: an older driver can no longer write; the ledger is not read yet
    sink.ledger-read       Kafka: the ledger was read; the transaction is not begun
    sink.begun             the transaction is open, and holds the store's lock (Kafka without
                           transactions: the ends of its target are stored; Iceberg: there is a
                           branch for the batch)
    sink.tail-read         Kafka without transactions: the rows of an earlier attempt are known
    sink.copying           the transaction has some rows, but not all
    sink.rows-written      the transaction has all rows; the ledger is not moved
    sink.ledger-moved      only COMMIT is missing (Kafka without transactions: the move is sent)
    sink.commit-sent       COMMIT is on its way, unanswered (SQLite, which has no network, and
                           Iceberg: just before it)
    sink.committed         the store has the batch; the sink has not reported it yet
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
    """If a test has armed a hook, call the hook with `name`, and raise its errors."""
    if _hook is not None:
        _hook(name)


def arm(hook: Callable[[str], None] | None) -> None:
    """Call `hook` at each fault point of this process from now on; with None, call no hook."""
    global _hook  # noqa: PLW0603  # one test at a time arms the whole process, on purpose
    _hook = hook


def arm_from_environment() -> None:
    """Arm the hook of the module that the environment variable names, if it is set.

    Raises ImportError or AttributeError if the module cannot be used: a test without its hook must
    not pass.
    """
    module = os.environ.get(VARIABLE)
    if module:
        arm(importlib.import_module(module).fault_point)


arm_from_environment()
