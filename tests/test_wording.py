"""Wording stands in tests/wording.txt, and in no test."""

from __future__ import annotations

import difflib
import itertools

import pytest

from tests.wording import SNAPSHOT, Sentences, frozen, written

SHOWN = 40


def test_the_texts_are_those_of_the_snapshot() -> None:
    """A text that was changed is read once more as a part of the diff of that file."""
    differ = difflib.unified_diff(
        SNAPSHOT.read_text().splitlines(),
        written().splitlines(),
        fromfile=SNAPSHOT.name,
        tofile="code",
        lineterm="",
        n=1,
    )
    lines = list(itertools.islice(differ, SHOWN))
    if lines:
        pytest.fail("\n".join([*lines, "type: make wording"]), pytrace=False)


def test_no_sentence_is_frozen_in_a_test() -> None:
    """Tests assert the class of an error and its facts; only the snapshot has its words."""
    assert frozen() == []


@pytest.mark.parametrize(
    ("literal", "part"),
    [
        ("group g holds no offsets of the topic t, so", "holds no offsets of the topic"),
        (r"holds no offsets of the topic .*\. Fix", "holds no offsets of the topic"),
        ("no offsets of the", None),  # four words, but few characters
        ("holds no offsets of a topic", None),
    ],
)
def test_what_a_test_repeats_is_found(literal: str, part: str | None) -> None:
    """Whole words of what stands between two values."""
    sentences = Sentences(["group {group} holds no offsets of the topic {topic}"])
    assert sentences.repeated(literal) == part
