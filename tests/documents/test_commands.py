"""What the documents tell people to type can be typed: commands, targets of make, Python."""

from __future__ import annotations

import ast
import contextlib
import inspect
import itertools
import re
import shlex
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import pytest
import typer.main

import eo_listener
from eo_listener import cli
from examples.demo import __main__ as demo
from tests.documents.explained import error_classes, explained
from tests.documents.markdown import DOCS, ROOT
from tests.python_source import tree_of_text

DOCUMENTS = [
    *ROOT.glob("*.md"),
    *DOCS.rglob("*.md"),
    ROOT / "examples" / "README.md",
    ROOT / "jvm-shim" / "README.md",
]
# Of typer, and of click where that is inside of it: what an option that does not exist raises.
USAGE: type[Exception] = typer.BadParameter.__bases__[0]
TEXTS = {path: path.read_text() for path in DOCUMENTS}


def blocks(text: str) -> Iterator[str]:
    """What is set as lines of code: in fences, or indented."""
    yield from re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    yield from re.findall(
        r"(?:^ {4}\S.*\n)+", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE
    )


def spans(text: str) -> list[str]:
    """What is set as code within a line, or over two."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [" ".join(one.split()) for one in re.findall(r"`([^`]+)`", prose)]


def typed(text: str, program: str) -> Iterator[str]:
    """The lines of blocks that begin with a program; one that a backslash ends goes on."""
    for block in blocks(text):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            found = re.match(rf"\s*(?:\$ )?({program} .*)$", line)
            if found:
                yield found[1]


def variants(line: str) -> Iterator[list[str]]:
    """The words of a line; of `seed|rewind` and `[--all]` each form that can be typed."""
    words = shlex.split(re.split(r" +(?:#|>|\||&&|;) ?", line)[0].replace("[", "").replace("]", ""))
    kept = [word for word in words[1:] if word not in ("...", "…")]
    yield from map(list, itertools.product(*(word.split("|") for word in kept)))


@cache
def program() -> Any:
    return cast(Any, typer.main.get_command(cli.app))


def parse_demo(words: list[str]) -> None:
    command = cast(Any, typer.main.get_command(demo.app))
    command.make_context("demo", words)


def parse(words: list[str], *, whole: bool) -> None:
    """Read words as the command would, and do nothing; a part of a command may lack the rest."""
    command = program()
    while hasattr(command, "commands"):
        own = {option for one in command.params for option in one.opts}
        if words and words[0] in {"--help", *own}:  # --version, --install-completion
            return
        if not words:
            assert not whole
            return
        command = command.commands[words.pop(0)]
    try:
        command.make_context("eo-listener", words)
    except typer.Exit:  # --help
        return
    except typer.BadParameter as error:
        if whole or type(error).__name__ != "MissingParameter":
            raise


def require_typable(line: str) -> None:
    """Fail unless a printed command, and the options that it is to be given as before, exist."""
    command, _, same = line.partition(" (with the same ")
    words = shlex.split(command)
    assert words.pop(0) == "eo-listener"
    for option in re.findall(r"-\S+(?=\)| and)", same):
        at = words.index("--") if "--" in words else len(words)
        words[at:at] = [option, "key=value"]
    parse(words, whole=True)


def can_be_typed(words: list[str], *, whole: bool) -> bool:
    try:
        parse(words, whole=whole)
    except (KeyError, USAGE):
        return False
    return True


def test_commands_of_ours_can_be_typed() -> None:
    """Subcommand and options exist, and no required one is missing, unless there is a `...`."""
    lines = [line for text in TEXTS.values() for line in typed(text, "eo-listener")]
    assert len(lines) > 80
    assert not [
        line
        for line in lines
        for words in variants(line)
        if not can_be_typed(words, whole=" ... " not in line.partition("#")[0])
    ]


def test_the_demo_can_be_started_as_documents_say() -> None:
    """In lines and in sentences."""
    started = ".venv/bin/python -m examples.demo"
    found = [line for text in TEXTS.values() for line in (*typed(text, started), *spans(text))]
    lines = [line for line in found if line.startswith(started)]
    assert lines
    for words in (words for line in lines for words in variants(line)):
        parse_demo(words[2:])


def test_commands_in_sentences_exist() -> None:
    """What is named within a line may be a part: its subcommand and its options exist."""
    found = [span for text in TEXTS.values() for span in spans(text)]
    parts = [span for span in found if span.startswith("eo-listener ")]
    assert len(parts) > 30
    assert not [p for p in parts for words in variants(p) if not can_be_typed(words, whole=False)]


def test_what_errors_say_to_type_can_be_typed() -> None:
    """In the docstrings of their classes."""
    lines = {line for error in error_classes() for line in explained(error).commands}
    ours = [line for line in lines if line.startswith("eo-listener ")]
    assert len(ours) > 5
    assert not [line for line in ours if not can_be_typed(shlex.split(line)[1:], whole=True)]


@pytest.mark.parametrize("line", ["state g", "status g -b k:1 --nosuch"])
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    """Such as one that was renamed."""
    assert not can_be_typed(line.split(), whole=True)


def test_targets_of_make_exist() -> None:
    """In lines and in sentences; what ARGS gives to the demo is what the demo takes."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    lines = [line for text in TEXTS.values() for line in (*typed(text, "make"), *spans(text))]
    lines = [line for line in lines if line.startswith("make ")]
    assert len(lines) > 10
    for line in lines:
        words = shlex.split(line.split("#")[0].split("&&")[0].split(";")[0])[1:]
        named = {word for word in words if re.fullmatch(r"[a-z][a-z-]*", word)}
        assert named <= targets, line
        for arguments in (word[5:] for word in words if word.startswith("ARGS=")):
            if "demo" in named:
                parse_demo(shlex.split(arguments))


def test_what_is_installed_with_pip_has_a_tested_spark() -> None:
    """A newer pyspark may come before its Kafka connector: the version is one of test-matrix."""
    tested = re.search(r"^SPARKS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert tested is not None
    row = f"tested on {', '.join(tested[1].split())}"
    pages = [(ROOT / page).read_text() for page in ("README.md", "docs/start/first_steps.md")]
    assert row in pages[0]
    lines = re.findall(r"pip install .*\[spark.*", "\n".join(pages))
    pinned = [re.search(r" pyspark==(\S+?)(?:`|$|\s)", line) for line in lines]
    assert len(lines) > 2
    assert all(pin is not None and pin[1] in tested[1].split() for pin in pinned), lines


def unknown_arguments(tree: ast.AST) -> list[str]:
    """Each call of ours that names an argument which the function does not have."""
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in eo_listener.__all__
        and not {one.arg for one in node.keywords if one.arg is not None}
        <= set(inspect.signature(getattr(eo_listener, node.func.id)).parameters)
    ]


def test_python_is_python() -> None:
    """Each block that says so can be compiled, and gives our functions arguments that they have."""
    blocks = [
        textwrap.dedent(re.sub(r"^ *\.\.\.$", "", code, flags=re.MULTILINE))
        for path, text in TEXTS.items()
        for code in re.findall(r"^ *```python\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    ]
    assert len(blocks) > 10
    assert not [call for code in blocks for call in unknown_arguments(tree_of_text(code))]


def test_python_in_sentences_names_what_exists() -> None:
    """`exactly_once(..., on_gap="accept")`: a call of ours, with arguments that it has."""
    calls = [
        span
        for text in TEXTS.values()
        for span in spans(text)
        if re.match(r"(?:\w+ = )?\w+\(.*\)$", span)
    ]
    trees = []
    for call in calls:
        with contextlib.suppress(SyntaxError):  # another language, or a sketch
            trees.append(tree_of_text(call))
    assert len(trees) > 20
    assert not [call for tree in trees for call in unknown_arguments(tree)]


def test_an_argument_that_does_not_exist_is_found() -> None:
    """Such as one that was renamed."""
    assert unknown_arguments(tree_of_text('exactly_once(sink, nosuch="accept")'))
