"""The command as a whole: streams that are closed or full, Ctrl-C, exit codes, help, imports."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eo_listener.cli import app
from tests.processes import Program, finished

COMMAND = f"{shlex.quote(sys.executable)} -m eo_listener"


def typed(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line as somebody types it into a shell, `eo-listener` for the command."""
    shell = ["/bin/bash", "-o", "pipefail", "-c", line.replace("eo-listener", COMMAND)]
    return finished(shell)


def python(*lines: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python of its own."""
    return finished([sys.executable, "-c", "\n".join(lines)])


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("eo-listener jar >&-", 3, "standard output"),
        ("eo-listener jar 2>&-", 0, ""),
        ("eo-listener jar >/dev/full", 3, "No space left"),
        ("eo-listener status g -b nowhere 2>&-", 2, ""),
        ("eo-listener status g -b nowhere 2>/dev/full", 2, ""),
        ("eo-listener --nosuch", 2, "--nosuch"),
    ],
)
def test_an_exit_code_is_kept_whatever_becomes_of_the_output(
    line: str, code: int, said: str
) -> None:
    """What is closed or full changes no other exit code, and is never a finding or a traceback."""
    answer = typed(line)
    assert answer.returncode == code, answer.stderr
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("line", "is_explained"),
    [
        ("status --group -b 127.0.0.1:1", True),
        ("group seed -1group --from-group g -b 127.0.0.1:1", True),
        ("status --jsn -b 127.0.0.1:1", False),  # a slip: --json is proposed
        ("jar --nosuch", False),  # which takes no name
    ],
)
def test_a_name_that_begins_with_a_dash(line: str, is_explained: bool) -> None:
    """How it is given is said where it may have been one."""
    answer = CliRunner().invoke(app, line.split(), env={"COLUMNS": "200"})
    assert answer.exit_code == 2
    assert "No such option" in answer.output
    assert ("-- -NAME" in answer.output) is is_explained


@pytest.mark.parametrize("command", ["jar", "--help"])
def test_a_reader_that_has_gone_is_no_finding(command: str) -> None:
    """`| head` ends the command with 141, as SIGPIPE does, and without any message."""
    answer = python(
        "import os, sys; own, its = os.pipe(); os.close(own); os.dup2(its, 1)",
        f"sys.argv = ['eo-listener', {command!r}]",
        "from eo_listener.__main__ import main; main()",
    )
    assert (answer.returncode, answer.stderr) == (141, "")


def test_ctrl_c_while_it_is_imported(tmp_path: Path) -> None:
    """It ends by the signal, without the traceback of whatever library is just being loaded."""
    # In place of a library that takes long to load: one that says so, and waits.
    (tmp_path / "typer.py").write_text(
        "import time\nprint('loading', flush=True)\ntime.sleep(60)\n"
    )
    own = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with Program([sys.executable, "-m", "eo_listener", "jar"], env=own) as process:
        process.await_line("loading")
        assert process.ending(signal.SIGINT) == (-signal.SIGINT, "")


def test_ctrl_c_in_a_command() -> None:
    """Ctrl-C ends any command with status 130 and one line."""
    answer = python(
        "import signal, sys, os",
        "from eo_listener import cli; from eo_listener.spark import shim",
        "def jar(): os.kill(os.getpid(), signal.SIGINT); signal.pause()",
        "shim.jar = jar",
        "sys.argv = ['eo-listener', 'jar']",
        "cli.main()",
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (130, "", "eo-listener: stopped\n")


@pytest.mark.parametrize("command", ["", "serve", "follow", "txn abort"])
def test_help_on_a_narrow_terminal_cuts_nothing(command: str) -> None:
    """At 40 columns each option and each kind of value stands there in full."""
    narrow, wide = (
        CliRunner().invoke(app, [*command.split(), "--help"], terminal_width=columns).stdout
        for columns in (40, 100)
    )
    assert len(narrow.splitlines()) > len(wide.splitlines())
    words = {word for word in wide.split() if word.startswith(("-", "<"))}
    assert len(words) > 1
    assert words <= set(narrow.split())
    assert "…" not in narrow + wide


@pytest.mark.parametrize("group", ["", "checkpoint", "group", "ledger", "txn"])
def test_the_list_of_commands_is_not_cut(group: str) -> None:
    """On a terminal of 80 columns each command has one whole sentence."""
    shown = CliRunner().invoke(app, [*group.split(), "--help"], terminal_width=80).stdout
    _, _, listed = shown.partition("\nCommands:\n")
    lines = listed.partition("\n\n")[0].splitlines()
    assert lines
    assert not [line for line in lines if line.endswith("...") or not line.endswith(".")]


FOREIGN = """
import json, sys
before = set(sys.modules)
import eo_listener
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
foreign = sorted(tops - set(sys.stdlib_module_names) - {"eo_listener"})
ours = sorted(name for name in sys.modules if name.startswith("eo_listener"))
print(json.dumps({"foreign": foreign, "ours": ours, "listed": dir(eo_listener)}))
"""


def test_importing_the_package_loads_nothing_foreign() -> None:
    """Not even a dependency: what is needed is loaded when a name is used. `dir` has the names."""
    environment = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
    command = [sys.executable, "-W", "error", "-c", FOREIGN]
    found = json.loads(finished(command, env=environment, check=True).stdout)
    assert found["foreign"] == []
    names = ("", ".errors", ".offsets", ".version")
    assert found["ours"] == [f"eo_listener{name}" for name in names]
    public = {"KafkaSink", "PostgresSink", "OffsetCommitListener", "configure"}
    assert public <= set(found["listed"])


EXTRAS = [
    ("KafkaSink", "pyarrow", "kafka"),
    ("PostgresSink", "psycopg", "postgres"),
    ("PostgresSink", "pyarrow", "postgres"),
    ("SqliteSink", "pyarrow", "sqlite"),
]
MISSING = f"""
import sys
import eo_listener
from eo_listener.errors import SettingsError
for name, package, extra in {EXTRAS}:
    sys.modules[package] = None
    try:
        getattr(eo_listener, name)
    except ImportError as error:
        assert isinstance(error, SettingsError)
        assert error.name == package, error.name
        assert f"{{name}} needs {{package}}" in str(error), error
        assert f"Install eo-listener[{{extra}}]" in str(error), error
    else:
        raise AssertionError(name)
    del sys.modules[package]
"""


def test_a_name_whose_extra_is_missing_is_an_import_error() -> None:
    """It is one of ours too: it says what to install."""
    answer = python(MISSING)
    assert answer.returncode == 0, answer.stderr


def test_no_file_is_left_open_in_place_of_a_closed_stream() -> None:
    """With standard error closed nothing that is opened later takes its number."""
    program = (
        "import os, sys, time\n"
        "from eo_listener import cli\n"
        "cli._require_streams()\n"
        "print(os.readlink('/proc/self/fd/2') if os.path.exists('/proc') else '/dev/null')\n"
    )
    answer = typed(f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} 2>&-")
    assert answer.stdout == "/dev/null\n"
