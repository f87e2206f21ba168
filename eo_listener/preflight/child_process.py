"""Checks a cluster in a child process, so that a crash of the child cannot end this process.

librdkafka's requests for groups sometimes end a process, mostly while a broker restarts. The child
runs `eo_listener.kafka.cluster_describer`. The request, which contains secrets, goes only over the
child's standard input.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eo_listener.errors import FormatError, UnavailableError
from eo_listener.model.check_finding import CheckFinding
from eo_listener.preflight.facts import Request

LONGEST = 90.0  # seconds; for an unreachable cluster the child needs about 8
_POLITE = 10  # niceness, added to the parent's
TRIES = 3
_PACKAGES: Final = Path(__file__).parents[2]

# `python -m` looks for modules in the working directory first, and so does `-c` when it starts: a
# `queue.py` there would be executed. PYTHONSAFEPATH exists only from Python 3.11 on, and -I would
# also ignore PYTHONPATH and the user's own packages. The directory of this package comes last, in
# case no path of a new interpreter has it.
_PROGRAM: Final = """\
import sys
sys.path[:] = [*filter(None, sys.path), sys.argv.pop(1)]
from eo_listener.kafka.cluster_describer import main
main()
"""


class BrokenOffError(UnavailableError):
    """The child ended with an unexpected exit code, or by a signal, or printed nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The findings of a child process; `reached` is True if it reached the cluster."""

    findings: tuple[CheckFinding, ...]
    reached: bool

    def text(self) -> str:
        """Return the answer as JSON."""
        documents = [finding.document() for finding in self.findings]
        return json.dumps({"reached": self.reached, "findings": documents})

    @classmethod
    def parse(cls, text: str) -> Answer:
        """Read an answer from its JSON. Raises FormatError."""
        try:
            answer = json.loads(text)
            findings = tuple(map(CheckFinding.parse, answer["findings"]))
            return cls(findings=findings, reached=answer["reached"])
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(
                f"cannot read the preflight's answer ({type(error).__name__})"
            ) from error


def run(request: Request) -> Answer:
    """Check a cluster in a child process; if that process crashes, try again, at most twice.

    Raises UnavailableError and FormatError.
    """
    for _ in range(TRIES - 1):
        with contextlib.suppress(BrokenOffError):
            return ask(start(), request, LONGEST)
    return ask(start(), request, LONGEST)


def start(*, polite: bool = False) -> subprocess.Popen[str]:
    """Start a child process that waits for its request; with `polite`, at a lower priority."""
    child = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(_PACKAGES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # it may quote the request
        text=True,
        start_new_session=True,  # a Ctrl-C at the driver must not reach the child
    )
    if polite:
        with contextlib.suppress(OSError):  # the child has ended, or the system has no priorities
            own = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, child.pid, min(19, own + _POLITE))
    return child


def ask(child: subprocess.Popen[str], request: Request, longest: float) -> Answer:
    """Run `child` for at most `longest` seconds, and return its answer.

    When the function returns, the child has ended. Raises UnavailableError if the child did not end
    in time, its subclass BrokenOffError if the child crashed, and FormatError if it printed no
    findings.
    """
    began = time.monotonic()
    try:
        printed, _ = child.communicate(request.text(), timeout=longest)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise UnavailableError(
            f"the check did not end within {time.monotonic() - began:.0f} s",
            fix="run eo-listener preflight, which makes the same checks",
        ) from None
    if child.returncode or not printed:
        raise BrokenOffError(
            f"its process ended with {child.returncode}",
            cause="librdkafka can end a process while a broker restarts; or eo_listener is not "
            "installed for that Python",
            fix="run eo-listener preflight, which makes the same checks",
        )
    return Answer.parse(printed)
