"""The names under which commits are made."""

from __future__ import annotations

INSTANCE_ID = "eo-listener"
"""The `group.instance.id` (KIP-345) of a group's live member, in the mode "member"."""


def transactional_id(group: str) -> str:
    """Return the `transactional.id` of a group's commits: always the same, so that it fences."""
    return f"eo-listener-{group}"
