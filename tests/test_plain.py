"""What `make plain` counts, and that the counts do not go up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import plain


def test_the_totals_do_not_exceed_the_ceiling() -> None:
    """Lower the ceiling after a rewrite; CONTRIBUTING.md says what to write instead."""
    phrases, names = plain.count(plain.ROOT)
    assert phrases.total() <= plain.CEILING["phrases"]
    assert names.total() <= plain.CEILING["names"]


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ('"""Whether it is there."""', 1),
        ('"""Fails, where nothing is read."""', 1),
        ('"""Names the place where records go."""', 0),
        ("x = 1  # What is read, is not read\n# any more", 2),
        ('"""What is it?"""', 0),
        ('raise E("the `beside` option is none of ours, and lies beside it")', 2),
    ],
)
def test_phrases_are_counted(text: str, total: int, tmp_path: Path) -> None:
    """In docstrings, in comments over two lines and in texts, but not in code."""
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "it.py").write_text(text + "\n")
    phrases, _ = plain.count(tmp_path)
    assert phrases.total() == total
