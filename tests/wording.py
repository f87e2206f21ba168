"""The texts that users read, once: `python -m tests.wording` writes them to tests/wording.txt."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tests.python_source import tree_of

ROOT: Final = Path(__file__).parents[1]
SNAPSHOT: Final = Path(__file__).with_suffix(".txt")
LEFT_OUT: Final = "{...}"  # a value that is no short expression
_LONGEST: Final = 40
_SQL: Final = re.compile(
    r"\s*(?:(?:SELECT|WITH|INSERT INTO|UPDATE|DELETE FROM|MERGE INTO|PRAGMA|BEGIN|SET)\s+[^,\s]|"
    r"CREATE TEMP|(?:CREATE|DROP) \w+ IF|\w+ (?:string|int|bigint)\b)"
)
# Their arguments are SQL, a pattern, a format or a type.
_NO_TEXT_FOR: Final = frozenset({"SQL", "compile", "cast", "Formatter", "strftime", "strptime"})
_JAVA: Final = re.compile(
    r'/\*.*?\*/|//[^\n]*|\'(?:[^\'\\]|\\.)\'|"((?:[^"\\\n]|\\.)*)"', re.DOTALL
)


def template(expression: ast.expr) -> str:
    """The text of an expression, with each value that only a run has in braces."""
    match expression:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(template, parts))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return template(left) + template(right)
        case ast.FormattedValue(value=value, format_spec=spec):
            return _place(value, f":{template(spec)}" if spec else "")
        case _:
            return _place(expression)


def _place(value: ast.expr, spec: str = "") -> str:
    # Python before 3.12 quotes a text within a text otherwise.
    if any(isinstance(node, ast.JoinedStr) for node in ast.walk(value)):
        return LEFT_OUT
    source = ast.unparse(value).replace("self.", "")
    return f"{{{source}{spec}}}" if len(source) <= _LONGEST else LEFT_OUT


def is_text(text: str) -> bool:
    """Whether people read it: a word beside something else, but no SQL."""
    fixed = re.sub(r"\{[^{}]*\}", "{}", text)
    return " " in fixed.strip() and bool(re.search(r"[a-z]{2}", fixed)) and not _SQL.match(text)


def texts_of(tree: ast.Module, commands: frozenset[str] = frozenset()) -> Iterator[str]:
    """Every text of a module, in its order; of the docstrings those of commands."""
    return (text for text in _below(tree, commands) if is_text(text))


def _below(node: ast.AST, commands: frozenset[str]) -> Iterator[str]:
    body = [child for child in ast.iter_child_nodes(node) if not _is_docstring(child)]
    if isinstance(node, ast.FunctionDef) and (_has_command(node) or node.name in commands):
        yield ast.get_docstring(node) or ""
    for child in body:
        if isinstance(child, ast.Call) and _called(child.func) in _NO_TEXT_FOR:
            continue
        if isinstance(child, ast.expr) and is_literal(child):
            yield template(child)
            for value in _values(child):
                yield from _below(ast.Expr(value), commands)
        else:
            yield from _below(child, commands)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_literal(node: ast.expr) -> bool:
    """Whether an expression is a text, or one with values."""
    match node:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return is_literal(left) or is_literal(right)
    return False


def _values(node: ast.expr) -> Iterator[ast.expr]:
    """What a text holds that is no text itself, in which may be others."""
    match node:
        case ast.Constant(value=str()):
            return
        case ast.JoinedStr(values=parts):
            for part in parts:
                yield from _values(part)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _values(left)
            yield from _values(right)
        case ast.FormattedValue(value=value):
            yield value
        case _:
            yield node


def _called(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _makes_command(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _called(node.func) in {"command", "callback"}


def _has_command(function: ast.FunctionDef) -> bool:
    return any(map(_makes_command, function.decorator_list))


@cache
def _commands() -> frozenset[str]:
    """The functions that are made commands where they are not defined."""
    return frozenset(
        _called(node.args[0])
        for path in (ROOT / "eo_listener" / "cli").rglob("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and _makes_command(node.func) and len(node.args) == 1
    )


def texts_of_java(source: str) -> Iterator[str]:
    """Every text of a class; what `+` puts between two literals is in braces."""
    text, end = "", None
    for found in _JAVA.finditer(source):
        if found[1] is None:
            continue
        between = source[end : found.start()] if end is not None else ";"
        joins = re.fullmatch(r"\s*\+\s*(?:([^;{}]*?)\s*\+\s*)?", between, re.DOTALL)
        if joins and (joins[1] or "").count("(") == (joins[1] or "").count(")"):
            text += f"{{{' '.join(joins[1].split())}}}" if joins[1] else ""
        else:
            yield text
            text = ""
        text += found[1].replace('\\"', '"')
        end = found.end()
    yield text


@cache
def texts() -> dict[str, tuple[str, ...]]:
    """All texts, by the path of their module."""
    package, shim = ROOT / "eo_listener", ROOT / "jvm-shim" / "src" / "main"
    found = {
        path: tuple(texts_of(tree_of(path), _commands() if "cli" in path.parts else frozenset()))
        for path in sorted(package.rglob("*.py"))
    }
    found |= {
        path: tuple(filter(is_text, texts_of_java(path.read_text())))
        for path in sorted(shim.rglob("*.java"))
    }
    return {path.relative_to(ROOT).as_posix(): of_it for path, of_it in found.items() if of_it}


def written() -> str:
    """The snapshot as the code is now: a text a line, the further lines of one indented."""
    return "\n".join(
        f"{module}\n" + "".join(f"- {_lines(text)}\n" for text in of_it)
        for module, of_it in texts().items()
    )


def _lines(text: str) -> str:
    return re.sub(r"\s*\n\s*", "\n  ", text.strip())


FEWEST_WORDS, FEWEST_CHARACTERS = 4, 25


def _words(text: str) -> list[str]:
    return [word for each in text.split() if (word := each.strip(".,:;()'\"*^$"))]


class Sentences:
    """The fixed words of texts, to find those that a test repeats."""

    def __init__(self, texts: Iterable[str]) -> None:
        pieces = [_words(p) for text in texts for p in re.split(r"\{[^{}]*\}|%[sdr]", text)]
        self._text = "\n".join(f" {' '.join(words)} " for words in pieces)
        self._runs = {
            tuple(words[at : at + FEWEST_WORDS]) for words in pieces for at in range(len(words))
        }

    def repeated(self, text: str) -> str | None:
        """The longest part that stands in one of ours; a pattern's backslashes do not hide it."""
        words = _words(re.sub(r"\\([^\w\s])", r"\1", text))
        longest = ""
        for at in range(len(words) - FEWEST_WORDS + 1):
            if tuple(words[at : at + FEWEST_WORDS]) in self._runs:
                end = at + FEWEST_WORDS
                while end < len(words) and f" {' '.join(words[at : end + 1])} " in self._text:
                    end += 1
                longest = max(longest, " ".join(words[at:end]), key=len)
        return longest if len(longest) >= FEWEST_CHARACTERS else None


def frozen() -> list[str]:
    """What the tests repeat of the snapshot, by file and line."""
    sentences = Sentences(text for of_it in texts().values() for text in of_it)
    return [
        f"{path.relative_to(ROOT)}:{line}: {found}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line, text in _literals(tree_of(path))
        if (found := sentences.repeated(text)) is not None
    ]


def _literals(node: ast.AST, line: int = 0) -> Iterator[tuple[int, str]]:
    for child in ast.iter_child_nodes(node):
        at = getattr(child, "lineno", line)
        if isinstance(child, ast.expr) and is_literal(child):
            yield at, template(child)
        elif not _is_docstring(child):
            yield from _literals(child, at)


if __name__ == "__main__":
    SNAPSHOT.write_text(written())
