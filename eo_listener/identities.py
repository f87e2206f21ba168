"""The names under which commits are made."""

from __future__ import annotations


def transactional_id(group: str) -> str:
    """Return the `transactional.id` of a group's commits: always the same, so that it fences."""
    return f"eo-listener-{group}"
