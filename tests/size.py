"""The size of a tree: code lines by folder, parameters and options.

    python -m tests.size [TREE]

A code line holds code: no blank line, comment or docstring is one, a line of another string is.
Parameters and options are counted by Python itself, in a process that imports TREE.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.python_source import tree_of_text

WHEEL: Final = "eo_listener"
ROOTS: Final = (WHEEL, "tests", "examples", "benchmarks", "jvm-shim/src/main", "jvm-shim/src/test")
LANGUAGES: Final = {
    ".py": "Python",
    ".java": "Java",
    ".sql": "SQL",
    ".html": "HTML",
    ".js": "JavaScript",
    ".css": "CSS",
}
WITHOUT: Final = ("broker", "demo", "serve")  # development and a page: nobody types these daily

_STRINGS: Final = r'"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*'"
_BLOCK: Final = r"/\*.*?\*/"
_COMMENTS: Final = {  # a string comes first: what looks like a comment in it is none
    ".java": rf'"""(?:\\.|[^\\])*?"""|{_STRINGS}|(?P<comment>{_BLOCK}|//[^\n]*)',
    ".sql": rf"'[^']*'|(?P<comment>{_BLOCK}|--[^\n]*)",
    ".html": r"(?P<comment><!--.*?-->)",
    ".js": rf"`(?:\\.|[^`\\])*`|{_STRINGS}|(?P<comment>{_BLOCK}|//[^\n]*)",
    ".css": rf"{_STRINGS}|(?P<comment>{_BLOCK})",
}
_NO_CODE: Final = frozenset(
    {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
        *(tokenize.ENCODING, tokenize.ENDMARKER),
    }
)


def code_lines(text: str, suffix: str) -> int:
    lines = text.splitlines()
    if suffix == ".py":
        return sum(bool(lines[number - 1].strip()) for number in _python_lines(text))
    stripped = re.sub(_COMMENTS[suffix], _without_comment, text, flags=re.DOTALL)
    return sum(bool(line.strip()) for line in stripped.splitlines())


def _without_comment(match: re.Match[str]) -> str:
    return match[0] if match["comment"] is None else "\n" * match[0].count("\n")


def _python_lines(text: str) -> set[int]:
    docstrings = list(_docstrings(tree_of_text(text)))
    return {
        number
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _NO_CODE
        and not (
            token.type == tokenize.STRING
            and any(begin <= token.start and token.end <= end for begin, end in docstrings)
        )
        for number in range(token.start[0], token.end[0] + 1)
    }


def _docstrings(tree: ast.Module) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where they begin and end; those of attributes too, which Python itself does not know."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                begin = (text.lineno, text.col_offset)
                yield begin, (text.end_lineno or 0, text.end_col_offset or 0)


def _counts(path: Path) -> Counter[str]:
    text = path.read_text()
    code = code_lines(text, path.suffix)
    lines = len(text.splitlines())
    return Counter({"files": 1, "lines": lines, "code": code, LANGUAGES[path.suffix]: code})


def folders(tree: Path) -> dict[str, Counter[str]]:
    """Every folder that has a row, with what is below it: one below a root, two below the sinks."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for root in ROOTS:
        for path in sorted((tree / root).rglob("*")):
            if path.suffix in LANGUAGES and path.is_file():
                rows[_row(root, path.relative_to(tree / root).parts[:-1])] += _counts(path)
    return dict(sorted(rows.items()))


def _row(root: str, below: tuple[str, ...]) -> str:
    if root not in (WHEEL, "tests"):
        return root
    depth = 2 if below[:1] == ("sinks",) and root == WHEEL else 1
    return "/".join((root, *below[:depth]))


# Runs where TREE is imported, be it older than this file or newer.
_INTERFACE: Final = """
import inspect, json, typer, eo_listener, eo_listener.cli
names = ("OffsetCommitListener", "exactly_once", "starting_offsets", "PostgresSink", "SqliteSink",
         "KafkaSink", "IcebergSink", "DeltaSink")
parameters = {name: len(inspect.signature(getattr(eo_listener, name)).parameters) for name in names}
def commands(command, words=()):
    inner = getattr(command, "commands", {})
    if words and not inner:
        kinds = [one.param_type_name for one in command.params]
        yield " ".join(words), {f"{kind}s": kinds.count(kind) for kind in ("option", "argument")}
    for word, below in inner.items():
        yield from commands(below, (*words, word))
print(json.dumps([parameters, dict(commands(typer.main.get_command(eo_listener.cli.app)))]))
"""


def interface(tree: Path) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Return the parameters of each public callable, and what each command takes."""
    answer = subprocess.run(
        [sys.executable, "-c", _INTERFACE],
        env={**os.environ, "PYTHONPATH": str(tree)},
        cwd=tree,
        stdout=subprocess.PIPE,
        check=True,
    )
    parameters, commands = json.loads(answer.stdout)
    return parameters, commands


def tables(tree: Path) -> Iterator[str]:
    rows = folders(tree)
    for root in (WHEEL, "tests", "jvm-shim"):
        below = [row for name, row in rows.items() if f"{name}/".startswith(f"{root}/")]
        rows[f"{root}, all"] = _sum(below)
    head = ("files", "lines", "code", *LANGUAGES.values())
    yield from _table("folder", head, rows)
    parameters, commands = interface(tree)
    parameters["all"] = sum(parameters.values())
    of_each = {name: Counter(parameters=count) for name, count in parameters.items()}
    yield from _table("callable", ("parameters",), of_each)
    taken = {name: Counter(counts) for name, counts in commands.items()}
    kept = [counts for name, counts in taken.items() if name.split()[0] not in WITHOUT]
    taken |= {"all": _sum(taken.values()), f"without {', '.join(WITHOUT)}": _sum(kept)}
    yield from _table("command", ("options", "arguments"), taken)


def _sum(counts: Iterable[Counter[str]]) -> Counter[str]:
    return sum(counts, Counter[str]())


def _table(kind: str, head: tuple[str, ...], rows: Mapping[str, Counter[str]]) -> Iterator[str]:
    width = max(map(len, (kind, *rows)))
    yield "  ".join((kind.ljust(width), *(f"{name:>10}" for name in head)))
    for name, counts in rows.items():
        yield "  ".join((name.ljust(width), *(f"{counts[one]:>10,}" for one in head)))
    yield ""


if __name__ == "__main__":
    tree = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    sys.stdout.write("".join(f"{line}\n" for line in tables(tree.resolve())))
