"""What the documents name is there: modules, names, tests, settings, files, headings."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from eo_listener import PostgresSink, SqliteSink

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")])

of_each = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


def imports(text: str) -> Iterator[tuple[str, str]]:
    """Module and name of each import from us in the Python of a document."""
    for line in re.findall(r"^ *(from eo_listener.*)$", text, re.MULTILINE):
        (node,) = ast.parse(line).body
        assert isinstance(node, ast.ImportFrom)
        yield from ((str(node.module), alias.name) for alias in node.names)


def proofs(text: str) -> list[tuple[str, str]]:
    """File or folder, and test of it or "", of each test that a document names."""
    return re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", text)


def anchor(heading: str) -> str:
    """What a heading is called in a link, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_there_are_documents() -> None:
    """And Python and tests in them, so that what is below looks at something."""
    assert len(DOCUMENTS) > 8
    assert sum(len(list(imports(path.read_text()))) for path in DOCUMENTS) > 5
    assert len(proofs((ROOT / "docs" / "guarantees.md").read_text())) > 20


@of_each
def test_what_is_imported_is_there(path: Path) -> None:
    """Every name that a document imports from us can be imported."""
    for module, name in imports(path.read_text()):
        assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


@of_each
def test_what_is_named_as_a_proof_is_there(path: Path) -> None:
    """It is a test, or a file or folder of tests."""
    for file, test in proofs(path.read_text()):
        assert (ROOT / file).exists(), file
        assert not test or f"def {test}(" in (ROOT / file).read_text(), f"{file}::{test}"


def test_each_claim_of_the_readme_has_a_proof() -> None:
    """What begins a point of "What it does" stands in docs/claims.md, with tests in its row."""
    readme = (ROOT / "README.md").read_text()
    does = readme.partition("## What it does\n")[2].partition("## What it does not do")[0]
    claims = {claim.rstrip(".") for claim in re.findall(r"^- \*\*(.*?)\*\*", does, re.MULTILINE)}
    assert len(claims) > 15
    rows = re.findall(
        r"^\| (.*?) \|.*\| (.*) \|$", (ROOT / "docs/claims.md").read_text(), re.MULTILINE
    )
    proved = {claim for claim, tests in rows if proofs(tests)}
    assert claims <= proved, claims - proved


def test_each_promise_names_its_test() -> None:
    """Each row of a table with a column "test", and each point "Test:", names tests."""
    text = (ROOT / "docs" / "guarantees.md").read_text()
    column = None
    rows = 0
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("|"):
            column = None
        elif cells[-1].removesuffix(" |") == "test":
            column = len(cells) - 1
        elif column is not None and not line.startswith("|---"):
            rows += 1
            assert proofs(line) or "the same test" in line, line
    assert rows > 15
    for heading in (
        text.partition("## What a sink holds")[2]
        .partition("## What a sink does")[0]
        .split("\n### ")[1:]
    ):
        assert proofs(heading.partition("- Test:")[2]), heading.partition("\n")[0]


@of_each
def test_links_lead_somewhere(path: Path) -> None:
    """Every link within the project leads to a file, and to a heading of it where one is named."""
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", path.read_text()):
        file, _, heading = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), link
        headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE) if heading else []
        assert not heading or heading in map(anchor, headings), link


@pytest.mark.parametrize(
    ("sink", "page"), [(PostgresSink, "postgres.md"), (SqliteSink, "sqlite.md")]
)
def test_a_page_of_a_sink_names_every_setting(sink: type, page: str) -> None:
    """Each argument that may be left out is on the page, as one writes it."""
    text = (ROOT / "docs" / page).read_text()
    given = inspect.signature(sink).parameters.values()
    settings = {one.name for one in given if one.default is not inspect.Parameter.empty}
    assert len(settings) > 5
    assert settings <= set(re.findall(r"\b(\w+)=", text))
