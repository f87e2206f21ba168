"""The end of a history: troubles are over, and every record must be in the target, once."""

from __future__ import annotations

from tests.model_checking.batches import rest as batches
from tests.model_checking.batches.spark import Phase
from tests.model_checking.kafka_sink.tape import KEY, LEDGER, TARGETS
from tests.model_checking.kafka_sink.world import Step, World
from tests.model_checking.ledger import require

_STEPS = 400


def over(world: World) -> bool:
    """Whether all batches are done and nobody has anything to do, or can: a history ends here."""
    return batches.over(world) or not world.steps()


def rest(world: World) -> None:
    """Let all end, zombies too, but no transaction by its time-out of minutes. Raises Broken."""
    world.left = dict.fromkeys(world.left, 0)
    while world.flying:
        world.take(("deliver", "0"))
    for driver in list(world.drivers.values()):
        if driver.stopped:
            world.take(("resume", driver.run))
    for tp in world.log.ends:
        world.log.ends[tp] += 1
    _settle(world)
    for driver in world.drivers.values():
        require(driver.phase is Phase.IDLE, f"{driver.run} does not get on")
    _compare(world)


def _settle(world: World) -> None:
    for _ in range(_STEPS):
        step = _next(world)
        if step is not None:
            world.take(step)
        elif any(driver.phase is Phase.BATCH for driver in world.drivers.values()):
            require(False, "a batch waits for a transaction that nobody ends but its time-out")
        elif any(driver.query_id == world.checkpoint.id for driver in world.drivers.values()):
            return
        else:
            world.take(("start", "same"))
    require(False, "it does not come to rest")


def _next(world: World) -> Step | None:
    steps = [step for step in world.of_cluster() if step != ("foreign", "begin")]
    for job in world.jobs:
        steps += [step for task in job.tasks for step in world.of_task(job, task)]
    for driver in world.drivers.values():
        steps += world.of_call(driver) or world.of_spark(driver, more=False)[:1]
    return next(iter(steps), None)


def _compare(world: World) -> None:
    """All that was written to the source is in the target, as the ledger says; nothing is open."""
    world.check_readers()
    heads = world.heads()
    for tp, end in world.log.ends.items():
        head = heads.get(tp)
        require(head is not None and head.range.until == end, f"the ledger has {head} for {tp}")
    seen = {row for tp in TARGETS for row in world.visible(tp)}
    require(seen == world.tables[KEY].rows, "readers do not see what was committed")
    wanted = sum(world.log.ends.values())
    require(len(seen) == wanted, f"{len(seen)} rows are there, not {wanted}")
    for tp in (*TARGETS, LEDGER):
        require(world.kafka.logs[tp].is_stable, f"a transaction stays open in {tp}")
