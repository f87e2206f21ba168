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

COMMAND = f"{shlex.quote(sys.executable)} -m eo_listener"


def typed(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line as somebody types it into a shell, `eo-listener` for the command."""
    return subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", line.replace("eo-listener", COMMAND)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("eo-listener jar >&-", 3, "standard output is closed"),
        ("eo-listener jar 2>&-", 0, ""),
        ("eo-listener jar >/dev/full", 3, "No space left"),
        ("eo-listener status g -b nowhere 2>&-", 2, ""),
        ("eo-listener status g -b 127.0.0.1:1 2>/dev/full", 3, ""),
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
        ("eo-listener status --group -b 127.0.0.1:1", True),
        ("eo-listener group seed -1group --from-group g -b 127.0.0.1:1", True),
        ("eo-listener status --jsn -b 127.0.0.1:1", False),  # a slip: --json is proposed
        ("eo-listener jar --nosuch", False),  # which takes no name
    ],
)
def test_a_name_that_begins_with_a_dash(line: str, is_explained: bool) -> None:
    """How it is given is said where it may have been one, and typed so it is no option."""
    answer = typed(line, COLUMNS="200")
    assert answer.returncode == 2
    assert "No such option" in answer.stderr
    assert ("A name that begins with a dash comes last, after --" in answer.stderr) is is_explained


def test_a_name_after_two_dashes() -> None:
    """It is a group like any other, of a cluster that does not answer."""
    answer = typed("eo-listener status -b 127.0.0.1:1 -- -1group")
    assert answer.returncode == 3, answer.stderr
    assert "No such option" not in answer.stderr


@pytest.mark.parametrize("command", ["jar", "preflight", "--help"])
def test_a_reader_that_has_gone_is_no_finding(command: str) -> None:
    """`| head` ends the command with 141, as SIGPIPE does, and without any message."""
    program = (
        "import os, sys; own, its = os.pipe(); os.close(own); os.dup2(its, 1);"
        f"sys.argv = ['eo-listener', {command!r}];"
        "from eo_listener.__main__ import main; main()"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False
    )
    assert (answer.returncode, answer.stderr) == (141, "")


def test_ctrl_c_while_it_is_imported(tmp_path: Path) -> None:
    """It ends by the signal, without the traceback of whatever library is just being loaded."""
    # In place of a library that takes long to load: one that says so, and waits.
    (tmp_path / "typer.py").write_text(
        "import time\nprint('loading', flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "eo_listener", "jar"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "loading\n"
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT
    assert said == ""


def test_ctrl_c_in_a_command() -> None:
    """Ctrl-C ends any command with status 130 and one line."""
    program = (
        "import signal, sys, os\n"
        "from eo_listener import cli; from eo_listener.spark import shim\n"
        "def jar(): os.kill(os.getpid(), signal.SIGINT); signal.pause()\n"
        "shim.jar = jar\n"
        "sys.argv = ['eo-listener', 'jar']\n"
        "cli.main()\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (130, "", "eo-listener: stopped\n")


@pytest.mark.parametrize("command", ["", "serve", "follow", "txn abort"])
def test_help_on_a_narrow_terminal_cuts_nothing(command: str) -> None:
    """At 40 columns each option and each kind of value stands there in full."""
    narrow, wide = (
        typed(f"eo-listener {command} --help", COLUMNS=columns).stdout for columns in ("40", "100")
    )
    words = {word for word in wide.split() if word.startswith(("-", "<"))}
    assert len(words) > 1
    assert words <= set(narrow.split())
    assert "…" not in narrow + wide


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
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", FOREIGN],
        env={key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    found = json.loads(answer.stdout)
    assert found["foreign"] == []
    assert found["ours"] == [
        "eo_listener",
        "eo_listener.model",
        "eo_listener.model.errors",
        "eo_listener.model.exit_codes",
        "eo_listener.model.offsets",
        "eo_listener.version",
    ]
    assert {"KafkaSink", "PostgresSink", "OffsetCommitListener", "configure"} <= set(
        found["listed"]
    )


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("KafkaSink", "pyarrow", "kafka"),
        ("PostgresSink", "psycopg", "postgres"),
        ("PostgresSink", "pyarrow", "postgres"),
        ("SqliteSink", "pyarrow", "sqlite"),
    ],
)
def test_a_name_whose_extra_is_missing_is_an_import_error(
    name: str, package: str, extra: str
) -> None:
    """It is one of ours too: it says what to install."""
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from eo_listener.model.errors import SettingsError\n"
        "try:\n"
        f"    from eo_listener import {name}\n"
        "except ImportError as error:\n"
        "    assert isinstance(error, SettingsError)\n"
        "    print(error.name, error)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False
    )
    assert answer.stdout.startswith(f"{package} {name} needs {package}"), answer.stderr
    assert f"pip install 'eo-listener[{extra}]'" in answer.stdout


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
