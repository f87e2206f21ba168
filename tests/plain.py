"""Count phrases and names that an English reader stumbles over: `python -m tests.plain [TREE]`.

CONTRIBUTING.md says what to write instead. The totals may only go down: `CEILING` holds them.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.python_source import tree_of_text
from tests.wording import texts_of

ROOT: Final = Path(__file__).parents[1]
CEILING: Final = {"phrases": 1050, "names": 1949}
PHRASES: Final = {
    '"where" for "if" or "when"': r"(?:(?<=[,;:(] )|^|(?<=[.?!] ))[Ww]here\b"
    r"|\bwhere (?:it|they|there|no|none|nothing|nobody|somebody|an?|one|that|this|some)\b",
    'a sentence that begins with "What"': r"(?:(?<=[.!?] )|^)What\b(?![^.!?]*\?)",
    'a docstring that begins with "Whether"': r"^Whether\b",
    '"not ... any more"': r"\b(?:no\w*|\w+n't)\b[^.;:]{0,60}\bany ?more\b",
    '"is none of", "is another one"': r"\b(?:is|are|was|were) (?:none of|another one|others)\b",
    '"so many of the"': r"\b[Ss]o (?:many|much) (?:of|seconds|rows|records)\b",
    '"beside"': r"\b[Bb]eside\b",
    '"for people"': r"\bfor people\b",
    '"once more", "anew"': r"\b(?:once more|anew|made again)\b",
    '"Let go of"': r"\b[Ll]et(?:s|ting)? go of\b",
    '"see to", "what to type"': r"\b(?:see to|what to type|type this)\b",
    '"says of", "it is said"': r"\b(?:say|says|said|told) of\b|\bis said\b",
    '"all the same"': r"\ball the same\b",
}
_WORDS: Final = """found given held it kept known left one ones other others ours said seen such
    that theirs them there these they this those what which who whose why"""
NAMES: Final = frozenset(re.findall(r"\w+", _WORDS))
_GENERATED: Final = ("runbook.md",)


def prose(path: Path) -> Iterator[str]:
    """Each paragraph that people read in a file: one line, without code."""
    text = path.read_text()
    if path.suffix == ".md":
        # A heading is no sentence, and the writer's guide shows what not to write.
        hidden = r"```.*?```|^#.*?$|^\| rule \|.*?\n\n"
        text = re.sub(hidden, "", text, flags=re.DOTALL | re.MULTILINE)
        paragraphs = re.split(r"\n\s*\n|\n(?=\s*[-|])", text)
    else:
        tree = tree_of_text(text)
        paragraphs = [*dict.fromkeys((*_docstrings(tree), *texts_of(tree))), *_comments(text)]
    for paragraph in paragraphs:
        yield re.sub(r"`[^`]*`", "`", " ".join(paragraph.split())).lstrip("-#| ")


def _docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield from re.split(r"\n\s*\n|\n(?=\s*- )", text)


def _comments(source: str) -> Iterator[str]:
    """Comments that follow each other line by line are one paragraph."""
    paragraph, last = "", -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1:
                yield paragraph
                paragraph = ""
            paragraph += " " + token.string.lstrip("# ")
            last = token.start[0]
    yield paragraph


def names(path: Path) -> Iterator[str]:
    """Each name from NAMES that a Python file binds, as often as it does."""
    for node in ast.walk(tree_of_text(path.read_text())):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in NAMES:
                yield name


def count(root: Path) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """The phrases and the names of a tree, each under its folder."""
    phrases: Counter[tuple[str, str]] = Counter()
    bound: Counter[tuple[str, str]] = Counter()
    patterns = {label: re.compile(pattern) for label, pattern in PHRASES.items()}
    for top in ("eo_listener", "tests", "examples", "benchmarks", "docs", "."):
        paths = root.glob("*.md") if top == "." else (root / top).rglob("*")
        for path in paths:
            if path.suffix not in {".py", ".md"} or path.name in (*_GENERATED, Path(__file__).name):
                continue
            parts = path.relative_to(root).parts[:-1]
            folder = "/".join(parts[: 2 if top == "eo_listener" else 1]) or "."
            for text in prose(path):
                for label, pattern in patterns.items():
                    phrases[folder, label] += len(pattern.findall(text))
            if path.suffix == ".py":
                bound.update((folder, name) for name in names(path))
    return phrases, bound


def main(root: Path) -> str:
    lines = []
    for title, counts in zip(("phrases", "names"), count(root), strict=True):
        for index in (0, 1):
            totals = Counter[str]()
            for key, number in counts.items():
                totals[key[index]] += number
            lines += [f"{number:6d}  {label}" for label, number in totals.most_common() if number]
            lines.append(f"{sum(counts.values()):6d}  {title}\n")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(main(Path(sys.argv[1]) if sys.argv[1:] else ROOT))
