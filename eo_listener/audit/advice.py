"""The commands and the Python code that an audit advises. Reads and writes nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from eo_listener.audit.positions import Ends, LedgerPositions
from eo_listener.errors import few
from eo_listener.model.ledger import LedgerKey
from eo_listener.model.ledger_place import LedgerPlace, LedgerStore, literal, target_first
from eo_listener.model.offsets_json import write_offsets
from eo_listener.model.typed_command import CLIENT, SPARK, STORAGE, ClusterCommands, typed_command
from eo_listener.offsets import OffsetRange, TopicPartition

STOP: Final = "stop the query; "
_GO_ON: Final = 'exactly_once(..., on_gap="accept"), until a batch is committed'
FROM_EARLIEST: Final = (
    'start the query with a new checkpointLocation and "startingOffsets", "earliest"'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Writes an audit's advice, with commands for `cluster` and for `checkpoint`.

    The commands contain no secrets of the checkpoint's storage.

    `schema` is the requested schema of ledgers in PostgreSQL.
    """

    cluster: ClusterCommands = field(default_factory=ClusterCommands)
    checkpoint: str | None = None
    schema: str | None = None

    def commit_checkpoint(
        self, group: str, *, rewind: bool, topics: Collection[str] | None = None
    ) -> str:
        """Return the command for a dry run that would give a group the checkpoint's offsets.

        The command changes the offsets of `topics`, or of all topics if `topics` is None.
        """
        if self.checkpoint is None:
            return (
                "add the query's checkpoint to `eo-listener audit`, which then prints the command"
            )
        words = ["--from-checkpoint", self.checkpoint]
        words += [word for topic in sorted(topics or ()) for word in ("-t", topic)]
        command = ["group", "rewind" if rewind else "seed"]
        return self.cluster.typed(command, words, reads_checkpoint=True, arguments=[group])

    def show_checkpoint(self) -> str:
        """Return the command that shows the contents of each file of the checkpoint."""
        same = [STORAGE] if self.cluster.storage else []
        return typed_command(["checkpoint", "show", self.checkpoint or "CHECKPOINT"], *same)

    def begin_from(self, ledger: LedgerPositions) -> str:
        """Return the advice to start the query at a ledger's position.

        If the ledger's rows are gone, the advice is to start the sink under a new name.
        """
        if not ledger.replaced:
            return self.begin_from_ledger(ledger)
        return (
            'give the sink another name, KafkaSink(..., name="NEW"), and audit it with --sink NEW. '
            f"If the topic is empty, {FROM_EARLIEST}; or, if it is a copy that matches the ledger, "
            f"{self.begin_from_ledger(ledger)}, with the sink under its old name"
        )

    @property
    def _source(self) -> str:
        """The argument of `starting_offsets` that names the cluster."""
        if self.cluster.client:
            return "options=OPTIONS_OF_THE_KAFKA_SOURCE"
        return f'bootstrap_servers="{self.cluster.address}"'

    def catch_up(self, ledger: LedgerPositions, restart: str, *, is_apart: bool) -> str:
        """Return the advice for a ledger that is behind the checkpoint.

        `restart` is the advice to start the query at the ledger's position. `is_apart` is True if
        the ledger can be restored without its table.
        """
        if ledger.replaced:
            return self.begin_from(ledger)
        if ledger.targets:
            return target_first(
                f"topic {few(ledger.targets)} has these records",
                all_there=_GO_ON,
                none_there=restart,
            )
        if ledger.unclaimed is None and is_apart:
            return (
                f"{restart}; or, if the table already has these records (--rows shows them), so "
                f"that this would write them twice: {_GO_ON}"
            )
        return restart

    def keep_rows(self) -> str:
        """Return the advice for a ledger that is behind the rows of its table."""
        return (
            "do not start from the ledger, which would write these rows twice. Restore the table "
            f"and its ledger from one copy; or, if the table has all of these records, {_GO_ON}"
        )

    def begin_or_restore(self, ledger: LedgerPositions, restart: str) -> str:
        """Return the advice for a ledger that lacks partitions that the query has read.

        `restart` is the advice to start the query at the ledger's position.
        """
        begins = 'exactly_once(..., on_first="accept") begins and records it'
        if not ledger.targets:
            return (
                "restore the ledger together with its store; for a sink that is new to the "
                f"query, {begins}"
            )
        return target_first(
            f"topic {few(ledger.targets)} has these records",
            all_there=f"or, if the sink is new to the query, {begins}",
            none_there=restart,
        )

    def begin_from_ledger(self, ledger: LedgerPositions, *, recreated: bool = False) -> str:
        """Return the advice to start a query with a new checkpoint at the position of a ledger."""
        more = ', recreated="earliest"' if recreated else ""
        consent = ', and exactly_once(..., on_recreated="restart")' if recreated else ""
        query = literal(ledger.key.query)
        return (
            f'{STOP}start it with a new checkpointLocation and .option("startingOffsets", '
            f"starting_offsets(ledger=sink, query={query}{more}, {self._source})){consent}"
        )

    def begin_beside_ledger(self, ledger: LedgerPositions, *, cut_back: bool) -> str:
        """Return the advice to start a query whose log was cut back below its ledger's position.

        Kafka gives the offsets after the cut to new records. The ledger records these offsets as
        applied, and never moves back, so the query gets a new ledger. `cut_back` is True if it is
        known that the topic was cut back, and not recreated.
        """
        query = literal(ledger.key.query)
        alternative = "" if cut_back else ', or "earliest" if the topic was recreated'
        return (
            f'{STOP}start it under another name, exactly_once(..., name="NEW"), with a new '
            'checkpointLocation and .option("startingOffsets", starting_offsets(ledger=sink, '
            f'query={query}, out_of_range="latest", {self._source})){alternative}. The query then '
            "begins at the end of the log and does not read the records written since the log was "
            "cut back. To read them, replace -1 in the JSON that starting_offsets returns with the "
            "offset to which the log was cut back, from the broker's log"
        )

    def name_ledger(self, key: LedgerKey, requested: LedgerKey) -> str:
        """Return the options with which an audit reads the ledger `key` instead of `requested`."""
        words = ["--query", key.query] if key.query != requested.query else []
        words += ["--sink", key.sink] if key.sink != requested.sink else []
        return shlex.join(words)

    def rename_ledger(self, address: str, old: LedgerKey, new: LedgerKey) -> str:
        """Return the command that gives a ledger a new name; without --execute it is a dry run."""
        return self.place(address).rename(old, new)

    def accept_gap(self, address: str, key: LedgerKey, tp: TopicPartition, gap: OffsetRange) -> str:
        """Return the command that accepts one gap; without --execute it is a dry run."""
        return self.place(address, compares=True).accept(key, tp, gap)

    def place(self, address: str, *, compares: bool = False) -> LedgerPlace:
        """Return the place of a ledger, for a command that shows or changes the ledger.

        If the address of a ledger's topic names no cluster, the topic is on the audit's cluster.
        Set `compares` for a command that can also read the source's log, which is on the audit's
        cluster.
        """
        store = LedgerStore.from_address(address)
        is_topic = store is LedgerStore.KAFKA
        asks = (is_topic and not address.startswith("kafka://")) or (
            compares and self.cluster.servers is not None
        )
        same = [CLIENT] if self.cluster.client and (asks or is_topic) else []
        same += [SPARK] if store is not None and store.in_table else []
        return LedgerPlace(
            address=address,
            schema=self.schema if store is LedgerStore.POSTGRES else None,
            servers=self.cluster.address if asks else None,
            repeated_options=tuple(same),
        )

    def begin_from_group(self, group: str) -> str:
        """Return the advice to start a query with a new checkpoint at the position of a group.

        If the group lacks a topic, a different group may hold the topic's offsets: reading that
        topic from the beginning would double its records.
        """
        return (
            'start the query with a new checkpointLocation and .option("startingOffsets", '
            f'starting_offsets(group={literal(group)}, missing="fail", {self._source}))'
        )

    def begin_after(self, group: str, offsets: Ends) -> str:
        """Return the advice to start the next consumer of a drained group, or a new query.

        Both start at the group's position. With auto.offset.reset=none, a consumer fails if an
        offset is missing; it does not skip records.
        """
        words = ["kafka-console-consumer", "--bootstrap-server", self.cluster.address]
        words += ["--include", "|".join(sorted({re.escape(tp.topic) for tp in offsets}))]
        words += ["--group", group]
        words += ["--consumer-property", "auto.offset.reset=none"]
        login = (
            " --consumer.config FILE, with your -X as properties of Kafka's consumer"
            if self.cluster.client
            else ""
        )
        return (
            f"start the next consumer, {shlex.join(words)}{login}; or a query with a new "
            f"checkpointLocation and .option(\"startingOffsets\", '{write_offsets(offsets)}')"
        )

    def show_transactions(self, topics: Iterable[str]) -> str:
        """Return the command that shows the owners of open transactions, and how to end each."""
        named = [word for topic in sorted(set(topics)) for word in ("--topic", topic)]
        return self.cluster.show_transactions(*named)
