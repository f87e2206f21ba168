"""What may not be given twice: a sink, and the batch of a run with other rows."""

from __future__ import annotations

from collections.abc import Sequence

from eo_listener.model.errors import SettingsError, few
from eo_listener.model.ledger_place import PlacedSink
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.model.protocols import Sink


def refuse_twice(sinks: Sequence[Sink]) -> None:
    """Raise SettingsError for no sink, and for two that share a ledger."""
    if not sinks:
        raise SettingsError(
            "exactly_once was given no sink",
            fix="Pass at least one: exactly_once(PostgresSink(dsn, table=...))",
        )
    named: dict[tuple[object, str], Sink] = {}
    for sink in sinks:
        place = _ledger_of(sink), sink.key
        first = named.get(place)
        named[place] = sink
        if first is None:
            continue
        problem = f"{sink.label} is named twice among the sinks"
        fix = "Name it once; to write two tables in one transaction, use apply="
        if first.label != sink.label:
            problem = f"{first.label} and {sink.label} go by one name, {sink.key!r}, in one ledger"
            fix = 'Give each a name of its own: KafkaSink(..., name="...")'
        cause = "both would share one ledger, and the second would see each batch as applied"
        raise SettingsError(problem, cause=cause, fix=fix)


def another_of_the_run(plan: PlannedBatch, sink: Sink) -> SettingsError:
    """The error for a batch that another exactly_once of this run has written to `sink`."""
    return SettingsError(
        f"{sink.label} got batch {plan.batch_id} in this run already, from another "
        "exactly_once(...)",
        cause="one foreachBatch calls two of them for one sink under one name, or two sinks "
        "of one name the same table; the second would see the batch as applied and write "
        "nothing",
        fix="Union both DataFrames, and write them by one exactly_once(...), or give each a "
        'name of its own: exactly_once(..., name="...")',
    )


def other_rows(plan: PlannedBatch, sinks: Sequence[Sink]) -> SettingsError:
    """The error for a batch that was over for this run, and is given again with other rows."""
    return SettingsError(
        f"exactly_once(...) is given batch {plan.batch_id} a second time in this run, with other "
        f"rows, which are not written: {few(sink.label for sink in sinks)} got the batch by the "
        "first call",
        cause="one foreachBatch calls the same exactly_once(...) twice, and a sink gets each batch "
        "once",
        fix="Call it once: union both DataFrames, or give it a sink for each, with a transform "
        "that returns a list; or write each by an exactly_once(...) of its own, with a name of "
        'its own: exactly_once(..., name="...")',
    )


def _ledger_of(sink: Sink) -> object:
    """What sinks of one ledger have in common; a topic's may have the heads of several targets."""
    place = sink.ledger_place if isinstance(sink, PlacedSink) else None
    if place is None or not place.is_apart:
        return sink.label
    return place.address, frozenset(one.strip() for one in (place.servers or "").split(","))
