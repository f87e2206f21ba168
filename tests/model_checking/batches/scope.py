"""What may happen in a search of the batches, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eo_listener.offsets import TopicPartition
from tests.model_checking.batches.spark import P0, P1
from tests.model_checking.batches.tape import How

STEPS: tuple[Mapping[TopicPartition, int], ...] = ({P0: 2, P1: 1}, {P0: 1}, {P0: 1, P1: 2})


@dataclass(frozen=True, slots=True)
class Scope:
    """The bounds of a search: how often each kind of trouble may come, by its name.

    The names: `crash`, `zombie` (stopped at any moment, and resumed at any other), `away` (a read
    that fails), `again` (a conflict), `lost`, `unanswered` and `late` (commits: not in, in, and in
    at some later moment; the answer is lost each time), `produce` (a record beyond what batches
    add), `rewind` (somebody restores an older checkpoint), `forgotten` (its newest plan is lost, so
    that the batch is planned again), `ledger` (a new checkpoint that starts where the ledger
    stands), `careless` (one that starts at the latest offsets), `stranger` (another query of the
    same name, from the beginning), `rename` (the program gets another name for it, which must not
    be done while it runs), `overlap` (it is started while it still runs), `restore` (the store as
    it was before its last commit), `empty` (a new store), `retention`, `recreate` (the first topic
    is deleted and recreated, with as many records in each partition as `recreated_records` says),
    `shrink` (the same, with its first partition alone), `earliest` (a new checkpoint that starts
    where the ledger stands, and at the beginning of what was recreated), and `aside` (the user's
    function returns without calling the product).

    With F0 among the partitions the query reads a counted source, alone or beside Kafka. A new
    checkpoint then reads on from what the sinks have of it (`ledger`), or from anywhere else. The
    user reads in its NewCheckpointError how it is confirmed, and confirms the former kind alone.
    """

    name: str
    troubles: Mapping[str, int]
    batches: int = 2  # with data
    stateful: bool = False
    how: How = How()  # noqa: RUF009  # frozen
    starts: int = 3
    steps: tuple[Mapping[TopicPartition, int], ...] = STEPS
    partitions: tuple[TopicPartition, ...] = (P0, P1)
    recreated_records: tuple[int, ...] = (3,)
