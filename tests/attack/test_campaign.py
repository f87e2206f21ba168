"""The proxy campaign: every request that the committer's client makes, met by every fault."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from eo_listener.kafka.group_stores import MODES
from tests.attack.campaign import READING, WRITING, Attack, Case, Outcome, cases
from tests.attack.offsets_topic import OffsetsTopic
from tests.attack.proxy import Proxy
from tests.broker import Broker
from tests.conftest import kafka_version
from tests.threads import none_left
from tests.topics import Topics

pytestmark = pytest.mark.kafka

LANES = 8  # attacks at once: nearly all of their time is waiting for time-outs


@dataclass(frozen=True, kw_only=True)
class AttackedBroker:
    """A broker with several proxies, and a topic longer than any attack will offer."""

    proxies: queue.SimpleQueue[Proxy]
    offsets: OffsetsTopic
    topic: str

    def attack(self, case: Case) -> Outcome:
        proxy = self.proxies.get()
        try:
            return Attack(case, proxy, self.offsets, self.topic).run()
        finally:
            self.proxies.put(proxy)


@pytest.fixture(scope="module")
def bench() -> Iterator[AttackedBroker]:
    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(f"LANE{number}")) for number in range(LANES)]
        broker = stack.enter_context(
            Broker(version=kafka_version(), listeners=[proxy.listener() for proxy in proxies])
        )
        free: queue.SimpleQueue[Proxy] = queue.SimpleQueue()
        for proxy in proxies:
            proxy.forward(broker)
            free.put(proxy)
        topics = Topics(broker.bootstrap_servers)
        topic = topics.create(partitions=3)
        topics.fill(topic, 30_000)
        yield AttackedBroker(proxies=free, offsets=OffsetsTopic(broker), topic=topic)


def chosen(plan: Sequence[Case]) -> list[Case]:
    """All, or those that EO_ATTACK_ONLY names by a part of their name, to replay one."""
    only = os.environ.get("EO_ATTACK_ONLY", "")
    return [case for case in plan if only in str(case)]


def carry_out(
    bench: AttackedBroker, plan: Sequence[Case], capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    # librdkafka's producer may never come back from sending offsets (librdkafka#5456).
    with none_left(but="eo-listener-transaction"), ThreadPoolExecutor(LANES) as pool:
        outcomes = list(pool.map(bench.attack, plan))
    with capsys.disabled():
        print(f"\n{len(outcomes)} attacks on the committer, {time.monotonic() - started:.0f} s")  # noqa: T201
        for one in outcomes:
            print(one)  # noqa: T201  # the numbers of each, and what went wrong
    assert not [str(one.case) for one in outcomes if one.problems]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "mode",
    ["simple", *(pytest.param(one, marks=pytest.mark.slow) for one in ("transactional", "member"))],
)
def test_each_first_request_is_met_by_each_fault(
    bench: AttackedBroker, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever it is, the group ends right, and was never wrong; reads in one mode alone."""
    apis = (*WRITING[mode], *(READING if mode == "simple" else ()))
    carry_out(bench, chosen(cases(mode, apis, [1])), capsys)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", sorted(MODES))
def test_the_second_and_the_third_request_too(
    bench: AttackedBroker, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same in mid-stream, when the client knows its coordinator and the group holds offsets."""
    rest = cases(mode, READING, [1]) if mode != "simple" else ()
    plan = (*rest, *cases(mode, (*WRITING[mode], *READING), [2, 3]))
    carry_out(bench, chosen(plan), capsys)
