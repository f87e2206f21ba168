"""What the documents name is there: modules, names, tests, settings, files, headings."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from eo_listener import DeltaSink, IcebergSink, KafkaSink, PostgresSink, SqliteSink
from tests.documents.markdown import DOCS, ROOT, anchor
from tests.python_source import tree_of_text

PACKAGE = ROOT / "eo_listener"
FOLDERS = [ROOT, *(ROOT / name for name in ("examples", "jvm-shim", "tests"))]
DOCUMENTS = sorted(path for folder in FOLDERS for path in folder.glob("*.md")) + sorted(
    DOCS.rglob("*.md")
)


def imports(text: str) -> Iterator[tuple[str, str]]:
    """Module and name of each import from us in the Python of a document."""
    for line in re.findall(r"^ *(from eo_listener.*)$", text, re.MULTILINE):
        (node,) = tree_of_text(line).body
        assert isinstance(node, ast.ImportFrom)
        yield from ((str(node.module), alias.name) for alias in node.names)


def proofs(text: str) -> list[tuple[str, str]]:
    """File or folder, and test of it or "", of each test that a document names."""
    return re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", text)


def test_there_are_documents() -> None:
    """And Python and tests in them, so that what is below looks at something."""
    assert len(DOCUMENTS) > 8
    assert sum(len(list(imports(path.read_text()))) for path in DOCUMENTS) > 5
    assert len(proofs((DOCS / "explanation" / "guarantees.md").read_text())) > 20


def test_what_is_imported_is_there() -> None:
    """Every name that a document imports from us can be imported."""
    assert not [
        (path.name, module, name)
        for path in DOCUMENTS
        for module, name in imports(path.read_text())
        if not hasattr(importlib.import_module(module), name)
    ]


def test_what_is_named_as_a_proof_is_there() -> None:
    """It is a test, or a file or folder of tests."""
    named = [(path, *proof) for path in DOCUMENTS for proof in proofs(path.read_text())]
    assert not [
        (path.name, file, test)
        for path, file, test in named
        if not (ROOT / file).exists() or (test and f"def {test}(" not in (ROOT / file).read_text())
    ]


def test_each_promise_names_its_test() -> None:
    """Each row of a table with a column "test", and each point "Test:", names tests."""
    text = (DOCS / "explanation" / "guarantees.md").read_text()
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


@cache
def headings(path: Path) -> set[str]:
    """What the headings of a document are called in links."""
    return set(map(anchor, re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)))


def leads_somewhere(link: str, path: Path) -> bool:
    file, _, heading = link.partition("#")
    target = path.parent / file if file else path
    return target.exists() and (not heading or heading in headings(target))


def test_links_lead_somewhere() -> None:
    """Every link within the project leads to a file, and to a heading of it if one is named."""
    assert not [
        (path.name, link)
        for path in DOCUMENTS
        for link in re.findall(r"\]\((?!https?:)([^)]+)\)", path.read_text())
        if not leads_somewhere(link, path)
    ]


def test_what_code_says_of_documents_is_there() -> None:
    """A page of docs/ that a docstring, an error, an alert or a script names, and its heading."""
    paths = [
        *PACKAGE.rglob("*.py"),
        *ROOT.glob("jvm-shim/src/main/**/*.java"),
        *ROOT.glob("examples/**/*.py"),
        *ROOT.glob("examples/**/*.yml"),
        ROOT / "Makefile",
    ]
    named = {
        found
        for path in paths
        for found in re.findall(r"\b(docs/[\w-]+/\w+\.md)(?:#([\w-]+))?", path.read_text())
    }
    assert len(named) > 20
    links = ["#".join(one) for one in named]
    assert not [link for link in links if not leads_somewhere(link, ROOT / "README.md")]


PAGES_OF_SINKS = {
    DeltaSink: "delta.md",
    IcebergSink: "iceberg.md",
    KafkaSink: "kafka.md",
    PostgresSink: "postgres.md",
    SqliteSink: "sqlite.md",
}


def test_a_page_of_a_sink_names_every_setting() -> None:
    """Each argument that may be left out is on the page, as one writes it."""
    for sink, page in PAGES_OF_SINKS.items():
        parameters = inspect.signature(sink).parameters.values()
        settings = {one.name for one in parameters if one.default is not inspect.Parameter.empty}
        assert len(settings) > 4
        text = (DOCS / "how-to" / page).read_text()
        assert not settings - set(re.findall(r"\b(\w+)=", text)), page


DESIGN_LINES = 350
# What the documents and the docstrings of packages name of others, beside Python's own.
OF_OTHERS = frozenset(
    {
        "IllegalArgumentException",
        "KafkaConsumer",
        "KafkaOffsetCommitterListener",
        "PySparkException",
        "SparkContext",
        "expire_snapshots",
        "launch_gateway",
        "publish_via_partition_root",
        "remove_orphan_files",
    }
)
OF_METRICS = {"alerts.md", "metrics.md", "serve.md"}  # their names have tests of their own
TEXTS = [
    *(path for path in DOCUMENTS if path.name not in OF_METRICS),
    *sorted(PACKAGE.rglob("__init__.py")),
]


@cache
def code() -> frozenset[str]:
    """Every word of the code: modules without the docstrings of packages, tests, the shim."""
    paths = [
        *(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"),
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("benchmarks/*.py"),
        *ROOT.glob("jvm-shim/src/**/*.java"),
    ]
    found = {word for path in paths for word in re.findall(r"\w+", path.read_text())}
    return frozenset(found | {part for path in paths for part in path.with_suffix("").parts})


def prose(path: Path) -> str:
    """The text of a document without its blocks of code, or the docstring of a package."""
    text = path.read_text()
    if path.suffix == ".py":
        return ast.get_docstring(tree_of_text(text)) or ""
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def names(text: str) -> set[str]:
    classes = set(re.findall(r"`(?:\w+\.)*(_?[A-Z][a-z]+(?:[A-Z][a-z0-9]*)+)[`(.]", text))
    return classes | set(re.findall(r"`(_?[a-z]+(?:_[a-z0-9]+)+)(?:[=(][^`]*)?`", text))


def test_names_of_code_are_in_the_code() -> None:
    """A class, or a name with an underscore, that is set as code was not renamed meanwhile."""
    known = code() | OF_OTHERS | set(dir(builtins))
    # Labels of metrics are the names of an Enum in lower case.
    assert not [
        (path, name)
        for path in TEXTS
        for name in names(prose(path))
        if not {name, name.upper()} & known
    ]


def test_paths_are_there() -> None:
    """A file or folder that is set as code is in the project, unless it is one of a checkpoint."""
    assert not [
        (path, name)
        for path in TEXTS
        if DOCS not in path.parents
        for name in re.findall(r"`([\w-]+/[\w./-]*|[\w-]+\.md)`", prose(path))
        if name.split("/")[0] not in {"commits", "offsets", "sources"}
        and not any((base / name).exists() for base in (ROOT, PACKAGE, path.parent))
    ]


def test_the_design_stays_a_map() -> None:
    """What is not obvious about one package stands in that package."""
    text = (ROOT / "DESIGN.md").read_text()
    assert len(text.splitlines()) <= DESIGN_LINES
    rows = re.findall(r"^\| `((?:\w+/)+)`(.*) \|$", text, re.MULTILINE)
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == {folder.split("/")[0] for folder, _ in rows}
    for folder, modules in rows:
        for name in re.findall(r"`([a-z_]+)`", modules):
            in_it = PACKAGE / folder
            assert (in_it / f"{name}.py").exists(), (folder, name)


def test_each_stop_of_the_flows_is_where_the_design_says() -> None:
    """The class or function that a row names is defined in the file that it names."""
    text = (ROOT / "DESIGN.md").read_text()
    stops = re.findall(r"^\| \d+ \|.*?`(\w+)`, `([\w/]+\.py)`", text, re.MULTILINE)
    assert len(stops) > 25
    for section in re.findall(r"^## The way of .*?(?=^## )", text, re.MULTILINE | re.DOTALL):
        rows = re.findall(r"^\| (\d+) \|", section, re.MULTILINE)
        assert rows == [str(number) for number in range(1, len(rows) + 1)]
        assert re.search(rf"There are {len(rows)}\b", section)
        parts = re.findall(r"^ {4}.*  (\d+)(?: stops)?$", section, re.MULTILINE)
        assert sum(map(int, parts)) == len(rows)
    for name, path in stops:
        assert re.search(rf"^(class|def) {name}\b", (PACKAGE / path).read_text(), re.MULTILINE), (
            name
        )


def test_lines_are_wrapped() -> None:
    """At 130 characters; rows of tables, points that name tests, and code cannot be."""
    assert not [
        (path.name, line)
        for path in DOCUMENTS
        for line in prose(path).splitlines()
        if len(line) > 130
        and not line.startswith(("|", "    ", "- Test:"))
        and "tests/" not in line
    ]
