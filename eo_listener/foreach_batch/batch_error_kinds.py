"""What can be wrong with a batch: what happened, why, what to type. Pure.

Most of it is the same for every sink. Where a ledger lies apart from its rows, it can be behind
them: to start from there would write them twice. So what is behind has words of its own then.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from eo_listener.model.errors import (
    GapError,
    GuardError,
    NewCheckpointError,
    NotInLedgerError,
    OverlapError,
    PartialReplayError,
    PartitionVanishedError,
    RegressionError,
    TopicRecreatedError,
)
from eo_listener.model.ledger_place import target_first

_AGAIN = (
    'again from the ledger: .option("startingOffsets", starting_offsets(ledger=sink, '
    'query={name}, bootstrap_servers="...")) on the source, and a new checkpointLocation'
)
_FROM_LEDGER = f"Start {_AGAIN}"
STATE = (
    ". Warning: the query has state (windows, counts, joins), and a new checkpoint starts without "
    "it, so what is still open there is lost. If you have the newest checkpoint, start from that "
    "instead"
)
_WITH_NEW_CHECKPOINT = (
    "from the ledger with a new checkpointLocation (all other topics continue from their heads): "
    '.option("startingOffsets", starting_offsets(ledger=sink, query={name}, '
    'bootstrap_servers="...", recreated="earliest")) on the source, and '
    'exactly_once(sink, on_recreated="restart")'
)
_WITH_ITS_CHECKPOINT = (
    "Start with the newest checkpoint of the query. If that is lost, nothing shows what of the "
    "sources that are not Kafka is in the sink already: take a new checkpointLocation, let these "
    "sources begin after that (or empty the table), and confirm it as the next error says: "
    'exactly_once(sink, new_checkpoint="...")'
)
BESIDE_KAFKA = (
    ". The query has sources that are not Kafka, too: a new checkpoint reads these from their own "
    "beginning, and must be confirmed as the next error says"
)
_ALONE = "read that topic in a separate query, with a name and a table of its own"


class Words(NamedTuple):
    """The text of an error: `{name}` is the query's name, `{old}` a former one, as in Python.

    `{consent}` confirms its checkpoint. `{rename}` is the command that carries a ledger over from
    the old names, `{move}` from the old sink alone, both behind a colon; `{accept}` accepts the
    first gap. They are empty for a sink whose ledger no command finds.
    """

    what: str
    cause: str
    fix: str


def _to_see(has_it: str, *, all_there: str, none_there: str) -> str:
    seen = target_first(has_it, all_there=all_there, none_there=none_there)
    return f"S{seen.removeprefix('s')}"


_EACH_GAP = '{accept}every gap to come: exactly_once(..., on_gap="accept")'

_PUT_BACK = (
    "the ledger's topic was put back to an older state, alone or with the rows, or was deleted"
)
_GAP_APART = Words(
    "offsets before it are not in the ledger",
    f"the checkpoint is ahead of the ledger: {_PUT_BACK}; or a new checkpoint starts at the latest "
    "offset",
    _to_see(
        "the target has these records",
        all_there=f"or you can do without them, accept {_EACH_GAP}",
        none_there=f"start {_AGAIN}",
    ),
)
_BATCH_GAP_APART = Words(
    "batches before it are not in the ledger",
    f"the checkpoint is ahead of the ledger: {_PUT_BACK}; or the function did not call "
    "exactly_once(...) for each batch",
    _to_see(
        "the target has the rows of these batches",
        all_there="or you can do without them, go on, and have the gap recorded: "
        'exactly_once(..., on_gap="accept")',
        none_there="start with a copy of the checkpoint that is as old as the ledger",
    ),
)
_SINK_IS_NEW = (
    "the sink is new to a query that has run without it; or the function did not call "
    "exactly_once(...) for batches "
)
_UNKNOWN_APART = Words(
    "earlier batches of the query have read these partitions, and the ledger does not have them",
    f"{_PUT_BACK}; or {_SINK_IS_NEW}of which a filter left no rows",
    _to_see(
        "the target has what these batches wrote",
        all_there="or the sink is new to the query, or those batches had no rows, "
        'exactly_once(..., on_first="accept") begins at this batch, and records that the offsets '
        "before it are not in the ledger",
        none_there=f"start {_AGAIN}",
    ),
)
_UNCOUNTED_APART = Words(
    "earlier batches of the query have read sources that are not Kafka, and the ledger does not "
    "have them",
    f"{_PUT_BACK}; or {_SINK_IS_NEW}without rows",
    _to_see(
        "the target has what these batches wrote",
        all_there="or the sink is new to the query, or those batches had no rows, "
        'exactly_once(..., on_first="accept") begins at this batch, and records that those before '
        "it are not in the ledger",
        none_there="with a new checkpointLocation all is read once more",
    ),
)
_IN_OLD_TABLE_APART = Words(
    "another sink of this ledger has it already, by this query",
    "the sink's topics or its name= were changed when the query's last batch was in the old ones, "
    "and not yet in the commits of the checkpoint; if its rows went to a topic of this sink, they "
    "would be written a second time",
    "If the rows are in topics of this sink (name= was changed, or a topic added), carry its "
    "ledger over{move}; and keep the name, exactly_once(..., name={old}). If they are in another "
    "topic, start the query once with the old sink, or with both. When that batch is committed, "
    'the sink can be changed: exactly_once(..., on_first="accept"). If the old sink belongs to '
    "another exactly_once(...) of the same function, call that one first",
)
_RENAMED_APART = Words(
    "the ledger has the query under another name",
    "queryName or name= was changed, or the sink's name= or topics",
    "To go on as before, give the old name and the old sink again, exactly_once(..., name={old}), "
    "or carry the ledger over{rename}. To begin at this batch under the new name, and have "
    'recorded that the offsets before it are not under it: exactly_once(..., on_first="accept")',
)


@dataclass(frozen=True, slots=True)
class _Kind:
    """The error of a kind, and its text: `apart` for a ledger that lies apart from its rows."""

    error: type[GuardError]
    what: str
    cause: str
    fix: str
    apart: Words | None = None

    def words(self, *, apart: bool) -> Words:
        """What it says of a ledger that lies with its rows, or apart from them."""
        return (self.apart if apart else None) or Words(self.what, self.cause, self.fix)


class BatchErrorKind(Enum):
    """What can be wrong, the gravest first; those of one error follow each other."""

    RECREATED = _Kind(
        TopicRecreatedError,
        "the topic was deleted and recreated since the sink got its last rows",
        "the same offsets now belong to other records, and Spark does not notice it",
        f"To read the new topic from its beginning, start {_WITH_NEW_CHECKPOINT}",
    )
    OTHER_CHECKPOINT = _Kind(
        NewCheckpointError,
        "the sink has batches of another checkpoint",
        "the checkpoint was deleted or replaced, or another query has this name. Of sources that "
        "are not Kafka only the batches of one checkpoint are known, so nothing shows which of "
        "these records the sink has already",
        "Start with the old checkpoint. If that is lost, let the sources that are not Kafka begin "
        "after what is in the sink (or empty the table), and confirm that this checkpoint follows "
        "its last batch: exactly_once(sink, new_checkpoint={consent}). If it is another query, "
        'give it a name of its own: exactly_once(..., name="...")',
    )
    VANISHED = _Kind(
        PartitionVanishedError,
        "partitions that the sink has rows of are no longer read",
        "the topic was recreated with fewer partitions, or the source's option assign names fewer",
        "Read them again (option assign). To read a recreated topic from its beginning, start "
        + _WITH_NEW_CHECKPOINT,
    )
    NOTHING_LEFT = _Kind(
        PartitionVanishedError,
        "it reads no partition any more, so rows from the query's state could not be "
        "recorded as applied",
        "all topics of the query were deleted, and failOnDataLoss=false lets Spark go on",
        "Create the topics again, or stop the query: what is open in its state was not written",
    )
    GONE = _Kind(
        PartitionVanishedError,
        "Kafka no longer has partitions that it reads",
        "the topic was deleted after Spark planned the batch, and failOnDataLoss=false hides that "
        "its records cannot be read",
        "Find out what happened to the topic, and restart the query when it is there. To read a "
        f"recreated topic from its beginning, start {_WITH_NEW_CHECKPOINT}",
    )
    BEHIND = _Kind(
        RegressionError,
        "it goes back to offsets that the sink already has",
        "the checkpoint is older than the sink (restored, or a new one that starts at the "
        "earliest offset), or another query has this name",
        _FROM_LEDGER,
    )
    BACKWARD = _Kind(
        RegressionError,
        "it ends before it starts",
        "the topic was recreated or truncated, and failOnDataLoss=false lets Spark go on",
        "Find out what happened to the topic. Records written since then below the first of these "
        f"offsets are not in the sink; to get them, {_ALONE}",
    )
    CUT_BACK = _Kind(
        RegressionError,
        "it reaches beyond the end of the log",
        "the log was truncated: records were lost in an unclean leader election",
        "Find out what happened to the topic, and restart the query when its log is complete "
        "again. Otherwise start it under another name, since the ledger has what is lost: "
        'exactly_once(..., name="..."), .option("startingOffsets", starting_offsets(ledger=sink, '
        'query={name}, bootstrap_servers="...", out_of_range="latest")) on the source, and a new '
        "checkpointLocation. That begins at the end of the log, after what was written since",
    )
    OLDER = _Kind(
        RegressionError,
        "it has no new offsets, and a lower batch number than the sink has",
        "the checkpoint is older than the sink: it was restored from a copy",
        _FROM_LEDGER,
    )
    BATCH_BEHIND = _Kind(
        RegressionError,
        "it goes back to batches that the sink already has",
        "the checkpoint is older than the sink: it was restored from a copy",
        _WITH_ITS_CHECKPOINT,
    )
    APPLIED = _Kind(
        OverlapError,
        "another query, or an older checkpoint of this one, has applied it under this name",
        "two queries share one name, or the checkpoint was deleted and the query started from an "
        "old position",
        'Two queries: give each a name of its own, exactly_once(..., name="..."). One query: '
        + _FROM_LEDGER,
    )
    OVERLAP = _Kind(
        OverlapError,
        "the sink already has a part of it, but not all",
        "the checkpoint lost its newest offsets/N and Spark planned that batch again with another "
        "end, or another query has this name",
        _FROM_LEDGER,
    )
    REPLANNED = _Kind(
        OverlapError,
        "the sink has a batch of this number that was planned at another time",
        "the checkpoint lost its newest offsets/N, or a copy of it was started beside it, and "
        "Spark planned the batch again, perhaps with other records",
        _WITH_ITS_CHECKPOINT,
    )
    UNDER_OLD_NAME = _Kind(
        NotInLedgerError,
        "the sink has it already, under another name in the ledger",
        "the query was renamed when its last batch was in the sink, and not yet in the commits of "
        "the checkpoint; under the new name its rows would be written a second time",
        "Carry the ledger over to the new name{rename}. Or start it under the old name, "
        "exactly_once(..., name={old}); when it has written its next batch, the name can be "
        'changed: exactly_once(..., on_first="accept"). If the old name belongs to another '
        "exactly_once(...) of the same function, call that one first",
    )
    IN_OLD_TABLE = _Kind(
        NotInLedgerError,
        "another table of the store has it already, by this query",
        "the sink's table= or schema= was changed when the query's last batch was in the old "
        "table, and not yet in the commits of the checkpoint; if the table itself was renamed, its "
        "rows would be written a second time",
        "If the table itself was renamed (ALTER TABLE), carry its ledger over{move}; and keep "
        "the name, exactly_once(..., name={old}). If it is another table, start the query once "
        "with the old one, or with both. When that batch is committed, the table can be changed: "
        'exactly_once(..., on_first="accept"). If the old table belongs to another '
        "exactly_once(...) of the same function, call that one first",
        _IN_OLD_TABLE_APART,
    )
    RENAMED = _Kind(
        NotInLedgerError,
        "the ledger has the query under another name",
        "queryName or name= was changed, or the sink's table= or schema=",
        "To go on as before, give the old name and the old table again, exactly_once(..., "
        "name={old}), or carry the ledger over{rename}. To begin at this batch under the new name, "
        "and have recorded that the offsets before it are not under it: "
        'exactly_once(..., on_first="accept")',
        _RENAMED_APART,
    )
    UNKNOWN = _Kind(
        NotInLedgerError,
        "earlier batches of the query have read these partitions, and the ledger does not have "
        "them",
        "the store was emptied or restored from a copy, or the query's rows in eo_ledger were "
        "deleted; or the sink is new to a query that has run without it; or the function did not "
        "call exactly_once(...) for batches of which a filter left no rows",
        "If the store has lost rows, restore it, or fill it again. " + _FROM_LEDGER + ". If the "
        "sink is new to the query, or those batches had no rows: "
        'exactly_once(..., on_first="accept") begins at this batch, and records that the offsets '
        "before it are not in the ledger",
        _UNKNOWN_APART,
    )
    UNCOUNTED = _Kind(
        NotInLedgerError,
        "earlier batches of the query have read sources that are not Kafka, and the ledger does "
        "not have them",
        "the store was emptied or restored from a copy, or the query's rows in eo_ledger were "
        "deleted; or the sink is new to a query that has run without it; or the function did not "
        "call exactly_once(...) for batches without rows",
        "If the store has lost rows, restore it, or fill it again: with a new checkpointLocation "
        "and an empty table all is read once more. If the sink is new to the query, or those "
        'batches had no rows: exactly_once(..., on_first="accept") begins at this batch, and '
        "records that those before it are not in the ledger",
        _UNCOUNTED_APART,
    )
    GAP = _Kind(
        GapError,
        "offsets before it are not in the sink",
        "the checkpoint is ahead of the sink: the sink was restored from a copy, or a new "
        "checkpoint starts at the latest offset",
        _FROM_LEDGER
        + ". To go on without these records, and have the gap recorded, accept "
        + _EACH_GAP,
        _GAP_APART,
    )
    LOST = _Kind(
        GapError,
        "Kafka deleted records of it before they could be read",
        "the topic's retention is shorter than the query's delay, and failOnDataLoss=false hides "
        "the loss",
        "Raise retention.ms of the topic, or make the query faster. To go on without these "
        'records, and have the gap recorded: exactly_once(..., on_gap="accept")',
    )
    BATCH_GAP = _Kind(
        GapError,
        "batches before it are not in the sink",
        "the checkpoint is ahead of the sink: the sink was restored from a copy; or the function "
        "did not call exactly_once(...) for each batch",
        "Restore the sink, or start with a copy of the checkpoint that is as old as the sink. To "
        "go on without these batches, and have the gap recorded: "
        'exactly_once(..., on_gap="accept")',
        _BATCH_GAP_APART,
    )
    MIXED = _Kind(
        PartialReplayError,
        "the sink already has these partitions of it, but not the others",
        "the checkpoint lost its newest offsets/N and Spark planned that batch again, or another "
        "query has this name",
        _FROM_LEDGER,
    )
