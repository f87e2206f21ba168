"""The end of a history: troubles are over, and every record must be in every sink, once."""

from __future__ import annotations

from tests.model_checking.batches.spark import F0, Driver, Phase
from tests.model_checking.batches.world import Step, World
from tests.model_checking.ledger import require

_STEPS = 400
_ANSWERS = ("well", "ousted", "oust", "busy")


def over(world: World) -> bool:
    """Whether all batches are done and nobody has anything to do: a history may end here."""
    if any(table.flying is not None for table in world.tables.values()):
        return False
    running = [driver for driver in world.drivers.values() if not driver.stopped]
    if not running:
        return not world.left["start"]
    return all(one.phase is Phase.IDLE and not world.of_spark(one) for one in running)


def rest(world: World) -> None:
    """Let all go on to its end, zombies too, and check what then stands. Raises Broken."""
    world.left = dict.fromkeys(world.left, 0)
    for key, table in world.tables.items():
        if table.flying is not None:
            world.take(("land", key))
    for driver in list(world.drivers.values()):
        if driver.stopped:
            world.take(("resume", driver.run))
    # A checkpoint that starts too late, or a topic recreated, shows with the next record only.
    files = world.checkpoint
    planned = files.batches[-1].ends if files.batches else files.first
    for tp, end in world.log.ends.items():
        world.log.ends[tp] = max(end, planned.get(tp, 0)) + 1
    if not _settle(world):
        return  # it cannot be healed, and somebody was told so
    for driver in world.drivers.values():
        require(driver.phase is Phase.IDLE, f"{driver.run} does not get on")
    _compare(world)


def _settle(world: World) -> bool:
    """Go on until nothing is left to do; False where the guard has failed the query for good."""
    for _ in range(_STEPS):
        step = next((step for one in world.drivers.values() for step in _of(world, one)), None)
        if step is not None:
            world.take(step)
        elif any(one.query_id == world.checkpoint.id for one in world.drivers.values()):
            return True  # a zombie of another checkpoint is no driver of the query
        elif not _heal(world):
            return False
    require(False, "it does not come to rest")
    return False


def _of(world: World, driver: Driver) -> list[Step]:
    answers = [step for step in world.of_call(driver) if step[2] in _ANSWERS]
    return answers[:1] or world.of_spark(driver, more=False)[:1]


def _heal(world: World) -> bool:
    """What an operator does who reads the error: start again, or from the ledger."""
    recreated = world.checkpoint.topics != world.log.lives
    halts = world.log.recreated and world.scope.how.on_recreated == "fail"
    if halts or world.lossy:
        return False
    world.name = next(iter(world.tables.values())).farthest()
    if world.offered is not None:
        world.take(("start", "confirm"))
        return True
    if recreated or world.checkpoint.id in world.meddled:
        several = {frozenset(table.of(world.name).items()) for table in world.tables.values()}
        if world.scope.stateful or len(several) > 1:
            return False
        first = world.from_ledger(recreated=world.log.recreated)
        require(first is not None, "the ledger is of no use to a new checkpoint")
        assert first is not None
        world.renew(first)
    world.take(("start", "same"))
    return True


def _compare(world: World) -> None:
    """All that was written to the topic is in every sink; what is there agrees with the ledger."""
    for key, table in world.tables.items():
        for tp, end in world.log.ends.items():
            if end == 0:
                continue
            if tp == F0:
                read = table.reached.get((F0, world.log.ids[F0.topic]), 0)
                require(read == end, f"{key} has the files up to {read}, not {end}")
                continue
            head = table.of(table.farthest()).get(tp)
            require(head is not None, f"{key} has nothing of {tp}")
            assert head is not None
            require(head.range.until == end, f"{key} has {tp} up to {head.range.until}, not {end}")
            now = world.log.ids[tp.topic]
            require(head.topic_id == now, f"{key} has {tp} of {head.topic_id}, not of {now}")
            if world.scope.stateful:
                emitted = table.emitted.get(tp)
                require(emitted == end, f"{key} has {tp} up to {emitted}, not {end}")
