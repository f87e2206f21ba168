"""The second time works without a network."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from tests.processes import finished

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka]

ALONE = ["unshare", "--net", "--map-root-user", "sh", "-c"]
SHUT_IN = 'ip link set lo up && ! ip route get 192.0.2.1 2>/dev/null && exec "$@"'


@pytest.mark.timeout(700)
def test_the_demo_runs_in_a_network_of_its_own() -> None:
    """With nothing but loopback: broker, connector and shim all come from the caches."""
    if shutil.which("ip") is None or subprocess.run([*ALONE, "true"], check=False).returncode != 0:
        pytest.skip("needs unshare and ip, and the right to use them")
    demo = [sys.executable, "-m", "examples.demo", "--rows", "1000", "--rate", "0", "--json"]
    # once with the network, so that there is a second time
    subprocess.run(demo, check=True, timeout=300, stdout=subprocess.DEVNULL)
    answer = finished([*ALONE, SHUT_IN, "sh", *demo], timeout=300)
    assert answer.returncode == 0, answer.stderr[-3000:]
    assert json.loads(answer.stdout)["counted"] == 1000
