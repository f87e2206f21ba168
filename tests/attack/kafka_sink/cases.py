"""The faults that requests of a Kafka sink meet, as data: which request, what happens to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from eo_listener.errors import EoListenerError, ForeignWriterError
from tests.attack.replies import ERRORS
from tests.attack.wire_faults import Action, Cut, Drop, Duplicate, Hold, Moment, Refuse, Way

LATE: Final = "late, between batches"
VERY_LATE: Final = "late, in a later batch"
WAYS: Final[Mapping[str, Action]] = {
    "request lost": Drop(Way.REQUEST),
    "reply lost": Drop(Way.REPLY),
    "request slow": Hold(Way.REQUEST, 0.4),
    "reply slow": Hold(Way.REPLY, 2.5),
    LATE: Hold(Way.REQUEST),
    VERY_LATE: Hold(Way.REQUEST),
    "sent twice": Duplicate(),
    "cut before": Cut(Moment.BEFORE),
    "cut after": Cut(Moment.AFTER),
    "cut within": Cut(Moment.WITHIN),
}
_COORDINATOR: Final = (
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "CONCURRENT_TRANSACTIONS",
)
_FENCE: Final = {
    ("InitProducerId", fault)
    for fault in (LATE, VERY_LATE, "sent twice", "reply lost", "reply slow")
}
# Answers that Kafka gives where another producer has the id: there is none here.
FENCING: Final = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
_LOST: Final = ("INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING", "UNKNOWN_SERVER_ERROR")
_LEADER: Final = (
    "NOT_LEADER_OR_FOLLOWER",
    "KAFKA_STORAGE_ERROR",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_SERVER_ERROR",
)
_PRODUCED: Final = (
    *_LEADER,
    *FENCING,
    "REQUEST_TIMED_OUT",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "UNKNOWN_PRODUCER_ID",
    "INVALID_TXN_STATE",
)

ROWS, LEDGER = "Produce of rows", "Produce of the ledger"
"""The requests of one api, told apart by the topic."""

CODES: Final[Mapping[str, tuple[str, ...]]] = {
    "InitProducerId": (*_COORDINATOR, *FENCING, "UNKNOWN_SERVER_ERROR"),
    "AddPartitionsToTxn": (*_COORDINATOR, *FENCING, *_LOST, "UNKNOWN_TOPIC_OR_PARTITION"),
    "AddOffsetsToTxn": (*_COORDINATOR, *FENCING, *_LOST),
    "TxnOffsetCommit": (*_COORDINATOR[:3], *FENCING, "INVALID_TXN_STATE", "REQUEST_TIMED_OUT"),
    ROWS: _PRODUCED,
    LEDGER: _PRODUCED,
    "EndTxn": (*_COORDINATOR, *FENCING, *_LOST),
    "Fetch": (*_LEADER, "OFFSET_OUT_OF_RANGE"),
    "ListOffsets": ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What happens to the `nth` request of its kind in a batch."""

    request: str
    fault: str
    nth: int = 1

    def __str__(self) -> str:
        again = "" if self.nth == 1 else f", time {self.nth}"
        return f"{self.request} {self.fault}{again}"

    @property
    def api(self) -> str:
        return self.request.split(maxsplit=1)[0]

    @property
    def may_stop(self) -> type[EoListenerError] | None:
        """The error after which a query has to be started again: what fences may be a successor."""
        if self.fault in FENCING or (self.api, self.fault) in _FENCE:
            return ForeignWriterError
        return None

    @property
    def action(self) -> Action:
        return WAYS.get(self.fault) or Refuse(ERRORS[self.fault])


# The second AddPartitionsToTxn is of the ledger; of an empty reading there are two questions.
_TIMES: Final = {"AddPartitionsToTxn": (1, 2), "ListOffsets": (1, 2), "Fetch": (1, 2)}

ALL: Final = tuple(
    Case(request=request, fault=fault, nth=nth)
    for request, codes in CODES.items()
    for fault in (*WAYS, *codes)
    for nth in _TIMES.get(request, (1,))
)
# Two of each request, and the hardest, of those that are not waited for long.
FEW: Final = frozenset(
    str(Case(request=request, fault=fault))
    for request, codes in CODES.items()
    for fault in ("sent twice", codes[-1])
) | {
    str(Case(request="InitProducerId", fault=VERY_LATE)),
    str(Case(request=ROWS, fault=VERY_LATE)),
    str(Case(request=LEDGER, fault="request lost")),
    str(Case(request="EndTxn", fault="reply lost")),
    str(Case(request="EndTxn", fault=LATE)),
    str(Case(request="EndTxn", fault="cut after")),
}

# Of a task, whose client is Java's.
_OF_TASKS: Final = {
    "AddPartitionsToTxn": ("CONCURRENT_TRANSACTIONS", "NOT_COORDINATOR", "INVALID_TXN_STATE"),
    "Produce": ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_PRODUCER_ID", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
}
TASKS: Final = tuple(
    Case(request=request, fault=fault)
    for request, codes in _OF_TASKS.items()
    for fault in (*WAYS, *codes)
)
