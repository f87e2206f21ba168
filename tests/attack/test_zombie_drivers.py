"""A whole driver that was suspended while another took over its checkpoint and its group."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from eo_listener.kafka.group_stores import MODES
from tests.attack.conftest import Attacked
from tests.attack.driver import Job
from tests.attack.durable import Durable
from tests.attack.faults import Fault, environment
from tests.attack.offsets_topic import audit
from tests.attack.zombies import Puppet
from tests.topics import unique

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

PAUSE = 16.0  # longer than what the committer takes for a pause in which others may have come


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_driver_that_stood_still_takes_nothing_back(
    attacked: Attacked, tmp_path: Path, mode: str
) -> None:
    """Resumed when its successor is far ahead, it looks at the group first, or is fenced."""
    topic, group = attacked.topics.create(partitions=3), unique("zombie")
    attacked.topics.fill(topic, 100)
    job = Job(
        servers=attacked.direct,
        topic=topic,
        group=group,
        checkpoint=str(tmp_path / "c"),
        listener={"mode": mode},
    )
    faults = environment({"listener.progress": Fault(do="stop", nth=2)}, tmp_path / "log")
    with Puppet("tests.attack.driver", job.text(), environment=faults) as zombie:
        zombie.await_line("Committed", 90)
        attacked.topics.fill(topic, 200)
        zombie.await_that(zombie.frozen, 60, "standstill")
        stopped = time.monotonic()
        attacked.await_held(group, 100)
        with Puppet("tests.attack.driver", job.text()) as successor:
            successor.await_line("ready", 90)
            successor.say("drain")
            successor.await_line("drained", 60)
            attacked.await_held(group, 300)
            # A batch more: where both stand at the same one, Spark lets either query win.
            attacked.topics.fill(topic, 60)
            attacked.await_held(group, 360)
            time.sleep(max(0.0, PAUSE - (time.monotonic() - stopped)))
            zombie.thaw()
            zombie.await_line(("CommitRefused", "CommitterFenced"), 30)
            attacked.topics.fill(topic, 40)
            attacked.await_held(group, 400)
            for driver in (successor, zombie):
                driver.say("stop")
            assert "stopped" in successor.await_line(("stopped", "failed"))
            zombie.await_line(("stopped", "failed"))
            assert successor.end() == 0
    assert sum(attacked.offsets.held(group).values()) == 400
    assert audit(attacked.offsets.commits(group), Durable(tmp_path / "c").bound) == ()
