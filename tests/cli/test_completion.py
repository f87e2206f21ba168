"""Completion in a shell, as somebody uses it who presses Tab in bash, zsh or fish."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eo_listener.cli import app

PROGRAMS = Path(sys.executable).parent
_TAB, _DONE = b"\t", b"\x0f"  # Ctrl-O: see _ZSH
_ZSH = """\
PROMPT='ready> '
show() { print -r -- "$BUFFER" > $HOME/buffer }
zle -N show
bindkey '^O' show
"""
"""Of an interactive zsh: Ctrl-O has it say what is typed by now."""

TYPED: list[tuple[str, list[str]]] = [
    ("eo-listener pre", ["preflight"]),
    ("eo-listener ledger re", ["rename"]),
    ("eo-listener group rewind --from-c", ["--from-checkpoint"]),
    ("eo-listener audit --ledger sq", ["sqlite:", "sqlite:FILE"]),
    ("eo-listener ledger show ice", ["iceberg:", "iceberg:CATALOG.NAMESPACE.TABLE"]),
    ("eo-listener group seed g --from-ledger de", ["delta:", "delta:TABLE", "delta:/PATH"]),
    ("eo-listener group seed g --missing l", ["latest", "leave"]),
    ("eo-listener follow --mode t", ["transactional"]),
    ("eo-listener status -b localhost:9092 flights", []),
]
"""What is typed, and what is offered for its last word: of groups and topics nothing, and Kafka is
not asked.
"""
FILES = "eo-listener audit --checkpoint /tm"
"""Here the shell completes files."""
SOME = [TYPED[at] for at in (1, 3, 6, -1)]
"""One of each kind, since a shell takes seconds."""
of_some = pytest.mark.parametrize(("words", "completed"), SOME)


def required(shell: str) -> str:
    """The program of a shell. Skips the test where it is not installed."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(
            f"there is no {shell} here, which Debian has as a package: apt-get install {shell}"
        )
    return found


def surroundings(home: Path) -> dict[str, str]:
    """With our command on the path, and a home of the test's own."""
    return {
        **os.environ,
        "HOME": str(home),
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "TERM": "xterm",
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
    }


def said_by(home: Path, *command: str) -> list[str]:
    """The lines that a shell prints."""
    answer = subprocess.run(
        command, cwd=home, env=surroundings(home), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=200, check=True,
    )  # fmt: skip
    return answer.stdout.splitlines()


def in_bash(script: str, home: Path) -> list[str]:
    """The lines that bash prints."""
    return said_by(home, "/bin/bash", "--norc", "-c", script)


def in_fish(script: str, home: Path) -> list[str]:
    """The words that fish offers, without what they mean."""
    return [line.partition("\t")[0] for line in said_by(home, required("fish"), "-c", script)]


def in_zsh(words: str, home: Path, *, tabs: int = 1) -> tuple[str, str]:
    """Type this and Tab in an interactive zsh: the line then, and all that was shown."""
    program, typed = required("zsh"), home / "buffer"
    own, its = pty.openpty()
    with subprocess.Popen(
        [program, "-i"], cwd=home, env=surroundings(home), stdin=its, stdout=its, stderr=its,
        start_new_session=True,
    ) as shell:  # fmt: skip
        os.close(its)
        shown, deadline = b"", time.monotonic() + 200
        keys = [(b"ready> ", words.encode() + tabs * _TAB + _DONE)]
        try:
            while not typed.exists() or not typed.read_text().endswith("\n"):
                assert time.monotonic() < deadline, shown
                if select.select([own], [], [], 0.1)[0]:
                    shown += os.read(own, 65536)
                if keys and keys[0][0] in shown:
                    os.write(own, keys.pop(0)[1])
        finally:
            shell.kill()
            os.close(own)
    return typed.read_text().removesuffix("\n"), shown.decode(errors="replace")


@pytest.mark.parametrize(("words", "completed"), [*TYPED, (FILES, [])])
def test_what_is_offered(words: str, completed: list[str]) -> None:
    """Commands, options and their values; nothing for a file, which the shell completes itself."""
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    answer = CliRunner().invoke(
        app, prog_name="eo-listener", env={"_EO_LISTENER_COMPLETE": "complete_bash", **asked}
    )
    assert answer.stdout.split() == completed


def test_tab_completes_in_bash(tmp_path: Path) -> None:
    """What is offered, each on a line of its own."""
    pressed = "".join(
        f"COMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}; COMPREPLY=(); "
        '_eo_listener_completion eo-listener; echo "${COMPREPLY[@]}"; '
        for words, _ in SOME
    )
    shown = in_bash(f'eval "$(eo-listener --show-completion bash)"; {pressed}', tmp_path)
    assert [line.split() for line in shown] == [completed for _, completed in SOME]


@of_some
def test_tab_completes_in_fish(words: str, completed: list[str], tmp_path: Path) -> None:
    """The same, in fish's own order."""
    assert sorted(offered_by_fish(words, tmp_path)) == sorted(completed)


def test_fish_completes_files(tmp_path: Path) -> None:
    """Where nothing is offered."""
    assert "/tmp/" in offered_by_fish(FILES, tmp_path)  # noqa: S108  # every system has it


def offered_by_fish(words: str, home: Path) -> list[str]:
    return in_fish(f'eo-listener --show-completion fish | source; complete -C "{words}"', home)


@of_some
def test_tab_completes_in_zsh(words: str, completed: list[str], tmp_path: Path) -> None:
    """What all of them begin with is inserted, a blank after it where there is but one."""
    line, shown = offered_by_zsh(words, tmp_path)
    before, _, last = words.rpartition(" ")
    inserted = os.path.commonprefix(completed) or last  # noqa: RUF071  # by character, as zsh does
    assert line == f"{before} {inserted}" + (" " if len(completed) == 1 else "")
    if inserted == last:  # else they are shown with the next Tab
        assert all(one in shown for one in completed)


def test_zsh_completes_files(tmp_path: Path) -> None:
    """Where nothing is offered."""
    line, _ = offered_by_zsh(FILES, tmp_path)
    assert line == f"{FILES}p/"


def offered_by_zsh(words: str, home: Path) -> tuple[str, str]:
    by_hand = 'autoload -Uz compinit; compinit -u -D; eval "$(eo-listener --show-completion zsh)"\n'
    (home / ".zshrc").write_text(by_hand + _ZSH)
    return in_zsh(words, home)


def test_it_is_installed_for_new_shells(tmp_path: Path) -> None:
    """In a file of its own, which ~/.bashrc reads; twice is as good as once."""
    for _ in range(2):
        in_bash("eo-listener --install-completion; true", tmp_path)
    script = tmp_path / ".bash_completions" / "eo-listener.sh"
    assert (tmp_path / ".bashrc").read_text().count(str(script)) == 1
    assert "complete " in script.read_text()


def test_it_is_installed_for_fish(tmp_path: Path) -> None:
    """A new fish reads it by itself."""
    in_fish("eo-listener --install-completion; true", tmp_path)
    assert in_fish('complete -C "eo-listener pre"', tmp_path) == ["preflight"]


def test_it_is_installed_for_zsh(tmp_path: Path) -> None:
    """Once in ~/.zshrc, however often it is typed."""
    for _ in range(2):
        said_by(tmp_path, required("zsh"), "-f", "-c", "eo-listener --install-completion; true")
    rc = tmp_path / ".zshrc"
    assert rc.read_text().count("autoload -Uz compinit") == 1
    rc.write_text(rc.read_text() + "\n" + _ZSH)
    line, _ = in_zsh("eo-listener pre", tmp_path, tabs=2)  # the first Tab loads it
    assert line == "eo-listener preflight "
