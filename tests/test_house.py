"""The house rules that no linter checks: sizes, names, formats, one version."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import eo_listener
from tests.python_source import tree_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "eo_listener"
MODULES = sorted(PACKAGE.rglob("*.py"))


def test_modules_and_functions_stay_small() -> None:
    """No module over 800 lines, no function of 60 or more."""
    assert not [path for path in MODULES if len(path.read_text().splitlines()) > 800]
    assert not [
        (path, node.name)
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 >= 60
    ]


def test_the_names_exported_are_the_names_listed() -> None:
    """Every name in `__all__` can be imported, and no other is promised."""
    for name in eo_listener.__all__:
        assert getattr(eo_listener, name) is not None
    with pytest.raises(AttributeError, match="nosuch"):
        eo_listener.nosuch  # noqa: B018  # the access is the test


def test_python_and_java_have_one_version() -> None:
    """The package, the shim and the changelog name the same version."""
    pom = (ROOT / "jvm-shim" / "pom.xml").read_text()
    version = re.search(r"<artifactId>eo-listener-shim</artifactId>\s*<version>(.*?)<", pom)
    assert version is not None
    assert version[1] == eo_listener.__version__
    assert f"eo-listener-shim-{eo_listener.__version__}.jar" in (ROOT / "Makefile").read_text()
    assert f"## {eo_listener.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


@cache
def imports(module: Path) -> frozenset[str]:
    """Every name imported anywhere in a module, inside functions and TYPE_CHECKING too."""
    found: set[str] = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: a relative import"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if is_module(name) else str(node.module) for name in inner}
    return frozenset(found)


def test_no_cycle_between_modules() -> None:
    """Drawn from all imports, the modules form no ring."""
    names = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in MODULES
    }
    graph = {
        name: {target for target in imports(path) if target in names and target != name}
        for name, path in names.items()
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        if name not in done:
            for target in graph[name]:
                visit(target, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


ONLY_THERE = {
    "confluent_kafka": ("kafka/",),
    "py4j": ("spark/jvm/",),
    "pyspark": ("foreach_batch/", "listener/", "spark/", "sinks/"),
    "typer": ("cli/",),
    "fsspec": ("spark/checkpoint/",),
    "tomli": ("follow/",),
    "psutil": ("sinks/",),
    "javaproperties": ("spark/session/",),
    "pyarrow": ("sinks/",),
    "prometheus_client": ("observers/metrics/",),
    "opentelemetry": ("observers/metrics/",),
    "psycopg": ("sinks/postgres/",),
}


def test_each_foreign_library_has_its_place() -> None:
    """One package an outside thing: a newcomer knows where Kafka or the JVM is spoken to."""
    users = {
        (library, path.relative_to(PACKAGE).as_posix())
        for path in MODULES
        for name in imports(path)
        if (library := name.split(".")[0]) in ONLY_THERE
    }
    assert {library for library, _ in users} == set(ONLY_THERE)
    assert not [use for use in users if not use[1].startswith(ONLY_THERE[use[0]])]


def test_no_registry_and_no_machine_is_named() -> None:
    """Tracked texts hold neither a registry's host nor a folder of somebody's machine."""
    named = re.compile(r"pypi\.org|maven\.org|/maven2|repo1\.|/home/\w+/|/root/[a-z.]")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert listed
    for path in (ROOT / name for name in listed if name != "tests/test_house.py"):
        if path.exists() and path.suffix != ".png":
            assert not named.search(path.read_text()), path


def test_packages_of_the_shim_import_downwards() -> None:
    """The root has the class that users name, and no package imports one above it."""
    packages = ["", "bridge", "events", "requests", "sink", "kafka", "spark", "protocol", "faults"]
    root = ROOT / "jvm-shim" / "src" / "main" / "java" / "io" / "github" / "eolistener"
    classes = sorted(path.relative_to(root) for path in root.rglob("*.java"))
    assert [path.name for path in classes if len(path.parts) == 1] == ["OffsetCommitListener.java"]
    for path in classes:
        level = packages.index("" if len(path.parts) == 1 else path.parts[0])
        text = (root / path).read_text()
        ours = re.findall(
            r"^import (?:static )?io\.github\.eolistener\.(\w+)\.", text, re.MULTILINE
        )
        for package in ours:
            assert packages.index(package) > level, f"{path} imports {package}"


# Words for which Kafka, Spark or PostgreSQL has its own name. docs/reference/glossary.md lists the
# terms that are used instead.
BANNED_WORDS = """
    agenda anew aside assistant assistants bench board breach breaches clerk complaints course
    desk distrust elsewhere engine fleeting halt halted hands heartbeat hole holes hurried hurry
    inbox lane lanes look looked looking looks mail mails malfunction noticed patience road
    roads router settler sieve sight sights slot slots span spans spelling spelt standing stir
    stirred stranger strangers surroundings tally tell teller telling tells told unseen vigil
"""
BANNED = frozenset(BANNED_WORDS.split())


def names(module: Path) -> Iterator[str]:
    """The module's own name, and those of its classes, functions, arguments and variables."""
    yield module.stem
    for node in ast.walk(tree_of(module)):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                if not name.startswith("__"):  # Python's own, such as __slots__
                    yield name


def words(name: str) -> set[str]:
    """`write_method`, `WriteMethod` and `_WRITE_METHOD` are of the same two words."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def test_no_private_word_is_a_name() -> None:
    """A name is a word of the field, or of the glossary."""
    assert not {(path, name) for path in MODULES for name in names(path) if words(name) & BANNED}


TOP = 16  # folders


def test_the_top_level_tells_the_architecture() -> None:
    """At most 16 folders, each a thing that users or operators would name, and the users' words."""
    names = {path.relative_to(PACKAGE).parts[0] for path in MODULES}
    assert names > {"kafka", "spark", "sinks", "cli"}
    names -= {"__init__.py", "__main__.py", "version.py"}
    names -= {"errors.py", "events.py", "offsets.py"}
    assert len(names) <= TOP, sorted(names)
    assert not [name for name in names if name.endswith(".py")]


def test_what_is_public_is_said_once() -> None:
    """`PUBLIC` names packages that are there, and the documents and examples use nothing else."""
    for package in eo_listener.PUBLIC:
        assert is_module(package)
        assert f"`{package}`" in (ROOT / "CONTRIBUTING.md").read_text()
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.py")]
    used = {
        name
        for path in documents
        for name in re.findall(
            r"^ *from (eo_listener[\w.]*) import", path.read_text(), re.MULTILINE
        )
    }
    assert used
    for name in used:
        assert name == "eo_listener" or name.startswith(tuple(eo_listener.PUBLIC)), name


SECTIONS = {
    *("ancestor", "artifacts", "attack", "broker", "clusters", "connect", "data", "disasters"),
    *("documents", "examples", "model_checking"),
}


def test_the_tests_lie_as_the_package_does() -> None:
    """Each folder of tests is one of the package; SECTIONS test all of it together."""
    tests = ROOT / "tests"
    folders = {
        path.parent.relative_to(tests)
        for path in tests.rglob("test_*.py")
        if path.relative_to(tests).parts[0] not in SECTIONS
    }
    assert len(folders) > TOP
    assert not [folder for folder in folders if not (PACKAGE / folder / "__init__.py").exists()]


def test_every_store_has_its_steps_under_the_same_names() -> None:
    """Who knows one sink finds the way in the others."""
    steps = {"sink", "connection", "ledger", "catalog", "types", "errors"}
    of_sql = {"merge", "user_sql"}
    stores = [path for path in (PACKAGE / "sinks").iterdir() if (path / "sink.py").exists()]
    assert len(stores) > 1
    for store in stores:
        # Iceberg and Delta tables have Spark's own types: `spark_columns` compares them.
        none = {"kafka": of_sql, "iceberg": {"types"}, "delta": {"types", "user_sql"}}
        lacking = none.get(store.name, set())
        assert (steps | of_sql) - lacking <= {path.stem for path in store.glob("*.py")}, store


def test_the_package_imports_nothing_from_outside() -> None:
    """The development kit lies in `tests` and `examples`, which the wheel does not have."""
    for path in MODULES:
        assert not [name for name in imports(path) if name.split(".")[0] in {"tests", "examples"}]
