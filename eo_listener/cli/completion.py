"""Completes values of options in a shell. Reads and writes nothing.

This module does not complete names of groups and topics: each Tab would send a request to Kafka,
with the secrets of a half-typed line, and the shell would wait as long as the cluster is
unreachable. If this module returns no values, the shell completes the names of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from eo_listener.sinks.ledger_address import EACH_FORM


def one_of(values: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that completes a value that must be one of `values`."""
    words = tuple(values)

    def complete(incomplete: str) -> list[str]:
        return [value for value in words if value.startswith(incomplete)]

    return complete


def ledger(incomplete: str) -> list[str]:
    """Complete the kind of a ledger's address.

    The result has both the kind (`sqlite:`) and the whole form of an address. The shell inserts the
    common beginning of the two, and so adds no space after the kind.
    """
    completions: list[str] = []
    for form in EACH_FORM:
        kind = form.partition(":")[0] + ":"
        if kind.startswith(incomplete):
            completions += [kind, form] if kind not in completions else [form]
    return completions
