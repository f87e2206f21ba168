"""Checks a cluster for a preflight. The requests may end the process (see `eo_listener.kafka`)."""

from __future__ import annotations

import sys
from contextlib import closing

from eo_listener.errors import KafkaError
from eo_listener.kafka.cluster_describer import ClusterDescriber
from eo_listener.model.check_finding import described, problem
from eo_listener.preflight.child_process import Answer
from eo_listener.preflight.request import Request


def answer(request: Request) -> Answer:
    """Check a cluster in this process. Raises SettingsError for invalid properties."""
    with closing(ClusterDescriber(request.properties)) as cluster:
        try:
            return Answer(findings=tuple(request.findings(cluster)), reached=True)
        except KafkaError as error:
            fix = error.fix or "Check the permissions of this client"
            about, advice = f"cluster {request.plan.servers}", f"{fix} (-b/--bootstrap-server, -X)"
            unreachable = problem(about, described(error), advice)
            return Answer(findings=(unreachable,), reached=False)


def main() -> None:
    """Read a request from standard input, and write the answer: what a child process runs."""
    sys.stdout.write(answer(Request.parse(sys.stdin.read())).text())
