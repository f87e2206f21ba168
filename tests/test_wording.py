"""Wording stands in tests/wording.txt, and in no test."""

from __future__ import annotations

import difflib
import itertools

import pytest

from tests.python_source import tree_of_text
from tests.wording import SNAPSHOT, Sentences, frozen, texts, texts_of, texts_of_java, written

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
    assert [str(one) for one in frozen()] == []


PYTHON = '''
"""The docstring of a module is no text."""
@app.command(epilog="Example: eo-listener do")
def do(name: Annotated[str, Option(help="Whom to do.")]) -> None:
    """Do it."""
def registered() -> None:
    """Done too."""
def other() -> None:
    """A docstring of something else."""
    logger.warning("it took %d seconds, "
                   "too many", seconds)
    raise OurError(f"{self.name} has {count:,} rows" + tail, fix="stop " + (f"at {at}" or ""))
    run("SELECT now() from somewhere", "name", SQL("from all tables"))
'''


def test_every_text_of_python_is_found() -> None:
    """Parts are joined and values named; SQL, single words and other docstrings are left out."""
    assert list(texts_of(tree_of_text(PYTHON), frozenset({"registered"}))) == [
        "Do it.",
        "Whom to do.",
        "Example: eo-listener do",
        "Done too.",
        "it took %d seconds, too many",
        "{name} has {count:,} rows{tail}",
        "stop {...}",
        "at {at}",
    ]


def test_every_text_of_java_is_found() -> None:
    """What plus joins is one text; comments are none."""
    source = """
      // "a comment"
      /** "and another" */
      throw new Failed("the \\"argument\\" " + name.of(it) + " is"
          + " empty", "Name it");
    """
    assert [text for text in texts_of_java(source) if text] == [
        'the "argument" {name.of(it)} is empty',
        "Name it",
    ]


def test_texts_of_both_languages_are_there() -> None:
    """So that the snapshot cannot become empty."""
    found = texts()
    assert {name.partition("/")[0] for name in found} == {"eo_listener", "jvm-shim"}
    assert sum(map(len, found.values())) > 2_000


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
