"""What the documents tell people to type can be typed: commands, targets of make, Python."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import shlex
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import typer.main

import eo_listener
from eo_listener import cli
from examples.demo import __main__ as demo
from tests.documents.error_classes import error_classes, explained
from tests.documents.markdown import DOCS, ROOT
from tests.python_source import tree_of_text

DOCUMENTS = [
    *ROOT.glob("*.md"),
    *DOCS.glob("*.md"),
    ROOT / "examples" / "README.md",
    ROOT / "jvm-shim" / "README.md",
]
# Of typer, and of click where that is inside of it: what an option that does not exist raises.
USAGE: type[Exception] = typer.BadParameter.__bases__[0]
of_each = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


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
    """Read words as the demo would, and do nothing."""
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


@of_each
def test_commands_of_ours_can_be_typed(path: Path) -> None:
    """Subcommand and options of each line exist, and none that must be given is missing.

    Where a line has `...`, that stands for what is missing.
    """
    for line in typed(path.read_text(), "eo-listener"):
        for words in variants(line):
            try:
                parse(words, whole=" ... " not in line.partition("#")[0])
            except (KeyError, USAGE) as error:
                raise AssertionError(line) from error


@of_each
def test_the_demo_can_be_started_as_documents_say(path: Path) -> None:
    """In lines and in sentences."""
    text = path.read_text()
    started = "python -m examples.demo"
    lines = [*typed(text, started), *(one for one in spans(text) if one.startswith(started))]
    for line in lines:
        for words in variants(line):
            parse_demo(words[2:])


@of_each
def test_commands_in_sentences_exist(path: Path) -> None:
    """What is named within a line may be a part: its subcommand and its options exist."""
    for line in spans(path.read_text()):
        if line.startswith("eo-listener "):
            for words in variants(line):
                try:
                    parse(words, whole=False)
                except (KeyError, USAGE) as error:
                    raise AssertionError(line) from error


def test_what_errors_say_to_type_can_be_typed() -> None:
    """In the docstrings of their classes."""
    lines = {line for error in error_classes() for line in explained(error).commands}
    ours = {line for line in lines if line.startswith("eo-listener ")}
    assert len(ours) > 5
    for line in ours:
        parse(shlex.split(line)[1:], whole=True)


@pytest.mark.parametrize("line", ["eo-listener state g", "eo-listener status g -b k:1 --nosuch"])
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    """Such as one that was renamed."""
    with pytest.raises((KeyError, USAGE)):
        parse(shlex.split(line)[1:], whole=True)


def test_there_are_commands_to_look_at() -> None:
    """Else what is above proves nothing."""
    texts = [path.read_text() for path in DOCUMENTS]
    assert len([line for text in texts for line in typed(text, "eo-listener")]) > 80
    assert len([line for text in texts for line in spans(text) if "eo-listener " in line]) > 40
    assert len([line for text in texts for line in typed(text, "make")]) > 10


@of_each
def test_targets_of_make_exist(path: Path) -> None:
    """In lines and in sentences; what ARGS gives to the demo is what the demo takes."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    text = path.read_text()
    lines = [*typed(text, "make"), *(one for one in spans(text) if one.startswith("make "))]
    for line in lines:
        words = shlex.split(line.split("#")[0].split("&&")[0].split(";")[0])[1:]
        named = [word for word in words if re.fullmatch(r"[a-z][a-z-]*", word)]
        given = dict(word.split("=", 1) for word in words if "=" in word)
        assert set(named) <= targets, line
        if "demo" in named and "ARGS" in given:
            parse_demo(shlex.split(given["ARGS"]))


@of_each
def test_python_is_python(path: Path) -> None:
    """Each block that says so can be compiled, and gives our functions arguments that they have."""
    for code in re.findall(
        r"^( *)```python\n(.*?)^ *```", path.read_text(), re.MULTILINE | re.DOTALL
    ):
        text = textwrap.dedent(re.sub(r"^ *\.\.\.$", "", code[1], flags=re.MULTILINE))
        if path.name != "reference.md":  # signatures have no body
            check(tree_of_text(text))


@of_each
def test_python_in_sentences_names_what_exists(path: Path) -> None:
    """`exactly_once(..., on_gap="accept")`: a call of ours, with arguments that it has."""
    for code in spans(path.read_text()):
        if re.match(r"(?:\w+ = )?\w+\(.*\)$", code):
            try:
                tree = tree_of_text(code)
            except SyntaxError:
                continue  # another language, or a sketch
            check(tree)


def check(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id in eo_listener.__all__:
            taken = inspect.signature(getattr(eo_listener, node.func.id)).parameters
            named = {one.arg for one in node.keywords if one.arg is not None}
            assert named <= set(taken), ast.unparse(node)


def test_an_argument_that_does_not_exist_is_found() -> None:
    """Such as one that was renamed."""
    with pytest.raises(AssertionError, match="nosuch"):
        check(tree_of_text('exactly_once(sink, nosuch="accept")'))
