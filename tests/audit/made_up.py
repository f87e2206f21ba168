"""Positions that nobody has read, and what is judged of them: parts are joined with `|`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from eo_listener.audit.advice import Advice
from eo_listener.audit.evidence import LogFacts
from eo_listener.audit.position_finding import (
    AuditOutcome,
    PositionFinding,
    PositionFindingKind,
    outcome,
)
from eo_listener.audit.position_judge import judge_positions
from eo_listener.audit.positions import (
    CheckpointPositions,
    GroupPositions,
    LedgerPositions,
    Positions,
    SourcePositions,
    StorePositions,
)
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.model.typed_command import ClusterCommands
from eo_listener.offsets import OffsetRange, Position, TopicPartition

TP, OTHER = TopicPartition("flights", 0), TopicPartition("flights", 1)
QUERY_ID = "0f8c2a11-0000-4000-8000-000000000000"
KEY, SECOND = LedgerKey("delays", "flights"), LedgerKey("b", "flights")
FILE = "SQLite file /x.db"
ADVICE = Advice(cluster=ClusterCommands(servers="k:9092"), checkpoint="/c")

Given = dict[str, Any]  # fields of Positions
Held = Mapping[TopicPartition, Position]


def by_number(values: Iterable[Any]) -> dict[TopicPartition, Any]:
    return {TopicPartition("flights", number): value for number, value in enumerate(values)}


def log(start: int = 0, end: int = 100, stable: int | None = None, topic_id: str = "A") -> LogFacts:
    stable = end if stable is None else stable
    return LogFacts(start=start, stable=stable, end=end, topic_id=topic_id)


def logged(*logs: LogFacts, **more: Any) -> Given:
    return {"source": SourcePositions(servers="k:9092", logs=by_number(logs), **more)}


def checkpoint(*done: int, ahead: Iterable[int] | None = None, **more: Any) -> CheckpointPositions:
    """Batch 4 is committed up to `done`; with `ahead` batch 5 is planned up to that."""
    given: Given = {
        "label": "/c",
        "query_id": QUERY_ID,
        "committed": 4,
        "planned": 4 if ahead is None else 5,
        "done": by_number(done),
        "ahead": by_number(done if ahead is None else ahead),
        **more,
    }
    given.setdefault("next_batch", None if given.get("damaged") else _next_batch(given))
    return CheckpointPositions(**given)


def _next_batch(fields: Given) -> PlannedBatch | None:
    """The planned batch, or an empty batch at the end of the committed batch."""
    if fields["committed"] is None and fields["planned"] is None:
        return None
    ranges = {
        tp: OffsetRange(fields["done"].get(tp, fields.get("began", {}).get(tp, 0)), until)
        for tp, until in fields["ahead"].items()
    }
    planned = fields["planned"] != fields["committed"]
    return PlannedBatch(
        query_id=fields["query_id"],
        run_id="",
        query=None,
        batch_id=fields["planned"] + (not planned),
        sources={0: ranges},
        topic_ids={},
        log_starts={},
        log_ends={},
        continued=frozenset(fields["done"]),
    ).began_at(fields.get("began", {}))


def done(*offsets: int, **more: Any) -> Given:
    return {"checkpoint": checkpoint(*offsets, **more)}


def held(
    *offsets: int, query: str = QUERY_ID, by_sink: bool = False, withheld: bool = False
) -> Held:
    written = CommitMetadata.for_batch(
        name="flights", query_id=query, run_id="11111111", batch_id=4
    )
    text = replace(written, by_sink=by_sink, withheld=withheld).text()
    return by_number(Position(offset=offset, metadata=text) for offset in offsets)


def group(before: Held, after: Held | None = None, name: str = "g", **more: Any) -> GroupPositions:
    after = before if after is None else after
    return GroupPositions(name=name, before=before, after=after, **more)


def grouped(*offsets: int, after: Held | None = None) -> Given:
    return {"groups": (group(held(*offsets), after),)}


def head(until: int, *, start: int = 0, topic_id: str | None = "A", query: str = QUERY_ID) -> Head:
    return Head(
        range=OffsetRange(start, until), topic_id=topic_id, query_id=query, run_id="r1", batch_id=4
    )


def ledger(*heads: int | Head, key: LedgerKey = KEY, **more: Any) -> LedgerPositions:
    found = by_number(one if isinstance(one, Head) else head(one) for one in heads)
    return LedgerPositions(**{"store": FILE, "key": key, "heads": found, **more})


def stored(*ledgers: LedgerPositions, **more: Any) -> Given:
    return {"stores": (StorePositions(store=FILE, ledgers=ledgers, **more),)}


def judged(given: Given) -> AuditOutcome:
    positions = Positions(**given)
    return outcome(judge_positions(positions, ADVICE), compared=positions.compared)


def kinds(found: AuditOutcome) -> set[PositionFindingKind]:
    """Of what is to be acted on."""
    return {one.kind for one in found.to_act_on}


def only(found: AuditOutcome) -> PositionFinding:
    """The one finding that matters."""
    assert [one.kind for one in found.to_act_on][1:] == [], found.to_act_on
    return found.to_act_on[0]


def noted(found: AuditOutcome, kind: PositionFindingKind) -> PositionFinding:
    """The one finding of this kind."""
    (one,) = (one for one in found.findings if one.kind is kind)
    return one
