"""Offsets that do not change are committed again, so that they do not expire.

Kafka deletes the offsets of a group without members when nobody has committed them for
`offsets.retention.minutes`, by default 7 days. A query without new records commits nothing new.
"""

from __future__ import annotations

from typing import Final

RECOMMIT_INTERVAL: Final = 3600.0
"""Seconds, if the user says nothing: a small part of the 7 days."""


def is_due(last: float | None, now: float, interval: float) -> bool:
    """Whether to commit again what was committed again at `last`, None for never."""
    return last is None or now - last >= interval
