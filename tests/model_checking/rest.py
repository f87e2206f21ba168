"""The end of a history: faults are over, time passes, and the group must tell the truth."""

from __future__ import annotations

from eo_listener.commit.groups.group_state import GroupState
from eo_listener.commit.groups.policy import OnRewind
from eo_listener.offsets import TopicPartition
from tests.model_checking.driver import Driver
from tests.model_checking.ledger import require
from tests.model_checking.scope import GROUP
from tests.model_checking.spark import Phase
from tests.model_checking.world import Step, World

_REASONS = {"CommitRefused", "CommitFailed", "ForeignCommit"}
_STRANGE = {"zombie", "delayed", "truncate", "recreate", "reset", "glitch"}  # may refuse a rewind
_STEPS = 2_000
_FAULTLESS = {"serve", "send", "restore", "finish", "event", "deliver", "tick"}


def rest(world: World) -> None:
    """Let all come to rest, and check what then stands. Raises Broken."""
    world.left = {**dict.fromkeys(world.left, 0), "tick": 10**6}
    world.kafka.members = False
    if world.chief() is None:
        world.take(("start", "same"))
    _revive(world)
    if not world.scope.faults:
        _prompt(world)
    quiet = world.scope.repeat_after + world.scope.snapshot_max_age + 30.0
    _settle(world, world.now + quiet)
    chief = world.chief()
    assert chief is not None
    _compare(world, chief, forgiving=True)
    _settle(world, world.now + world.scope.recommit_interval + quiet)
    _revive(world)
    _compare(world, chief, forgiving=False)
    for driver in world.running():
        _bounded(world, driver)
    owed = {run: batches for run, batches in world.truth.owed.items() if batches}
    live = {run.run for run in chief.runs.values()}
    require(not (owed.keys() & live), f"nobody complained of {owed}")


def _revive(world: World) -> None:
    """Queries that ended because another run took their batch are started again."""
    for _ in range(3):
        chief = world.chief()
        assert chief is not None
        _settle(world, world.now)
        for query in world.scope.queries:
            if query not in chief.runs:
                world.take(("again", chief.name, query, "same"))


def _prompt(world: World) -> None:
    """Without any trouble the group is right as soon as the events are served."""
    _settle(world, world.now)
    for tp, right in world.right().items():
        held = world.kafka.held(GROUP).get(tp)
        late = held is None or held.offset != right
        require(not late, f"no trouble, and {tp} is at {held}, not at {right}")


def _settle(world: World, until: float) -> None:
    for _ in range(_STEPS):
        step = next((one for one in world.steps() if _quiet(one)), None)
        if step is None or step == ("tick",):
            moment = world.next_moment()
            if moment is None or moment > until:
                world.pass_to(until)
                return
            step = ("tick",)
        world.take(step)
    require(False, "it does not come to rest")


def _quiet(step: Step) -> bool:
    name = step[0]
    return name in _FAULTLESS or (name == "answer" and step[2] in ("well", "gone"))


def _compare(world: World, chief: Driver, *, forgiving: bool) -> None:
    """The group stands where the checkpoints do, or somebody has said why not."""
    held = world.kafka.held(GROUP)
    unheard = any(run.untold for run in chief.runs.values())  # until the recommit
    on_snapshot_failed = world.truth.meddled | world.truth.taken_back
    for tp, right in world.right().items():
        if not world.kafka.exists(tp) or (forgiving and (unheard or tp in on_snapshot_failed)):
            continue
        found = held[tp].offset if tp in held else None
        require(
            found == right or _said(world, chief, tp),
            f"at rest {tp} is at {found}, its query at {right}, and nobody said why",
        )


def _said(world: World, chief: Driver, tp: TopicPartition) -> bool:
    """Whether somebody has said why a group does not stand where it should."""
    truth, running = world.truth, {driver.name for driver in world.running()}
    if any((name, "fenced") in truth.reported for name in running):
        return True  # a zombie's query may have gone on; its driver has said that it may not
    about = {what for who, what in truth.reported if who == chief.name}
    if about & {tp.topic, *world.scope.queries}:
        return True
    reasons = _REASONS
    if world.scope.on_rewind is OnRewind.ALLOW and not _STRANGE & world.scope.faults.keys():
        reasons = _REASONS - {"CommitRefused"}
    return bool(truth.told.get((chief.name, tp), set()) & reasons)


def _bounded(world: World, driver: Driver) -> None:
    runs, groups = len(driver.tracker._runs), len(driver.tracker._shared._groups)
    require(runs <= len(driver.runs), f"{driver.name} remembers runs that have ended")
    require(groups <= 1, f"{driver.name} remembers groups")
    require(not driver.buffer._waiting.by_run, f"{driver.name} has mail left")
    sequences = len(driver.buffer._sequences)
    judged = len(driver.runs) + driver.untold
    require(sequences <= judged, f"{driver.name} judges runs that have ended")
    for group_state in driver.cluster_state._groups.values():
        _done(world, driver, group_state)


def _done(world: World, driver: Driver, group_state: GroupState) -> None:
    for tp in group_state._due:
        require(
            group_state._partitions[tp].refused is not None or _said(world, driver, tp),
            f"{driver.name} still waits to commit {tp}",
        )


def over(world: World) -> bool:
    """Whether all batches are done and nobody has anything to do: a history may end here."""
    chief = world.chief()
    if chief is None or world.kafka.delayed:
        return False
    if any(world.of_listener(driver) for driver in world.running()):
        return False
    return all(c.done >= world.wanted(c) for c in world.checkpoints.values()) and all(
        run.phase in (Phase.IDLE, Phase.OVER)
        for driver in world.running()
        for run in driver.runs.values()
    )
