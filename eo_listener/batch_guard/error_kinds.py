"""The kinds of a batch's errors: what happened, why, and what to run. No I/O.

Most texts are the same for every sink. But a ledger that is kept apart from its rows can be older
than the rows, and a start from that ledger would write rows twice. So for such a ledger there are
separate texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from eo_listener.errors import (
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
    ". Warning: the query has state (windows, counts, joins), and a new checkpoint starts "
    "without it, so open windows, counts and joins are lost. If you have the newest checkpoint, "
    "start from that instead"
)
_WITH_NEW_CHECKPOINT = (
    "from the ledger with a new checkpointLocation (all other topics continue from their heads): "
    '.option("startingOffsets", starting_offsets(ledger=sink, query={name}, '
    'bootstrap_servers="...", recreated="earliest")) on the source, and '
    'exactly_once(sink, on_recreated="restart")'
)
_WITH_ITS_CHECKPOINT = (
    "Start with the newest checkpoint of the query. If it is lost, nothing shows which records "
    "of the sources other than Kafka are already in the sink: (1) take a new checkpointLocation; "
    "(2) let these sources begin after those records (or empty the table); (3) confirm the new "
    'checkpoint, as the next error says: exactly_once(sink, new_checkpoint="...")'
)
BESIDE_KAFKA = (
    ". The query also has sources other than Kafka: a new checkpoint reads these from their "
    "beginning, and must be confirmed as the next error says"
)
MOVE_BACK = (
    " If the table was moved to another schema (SET SCHEMA), no command can carry its ledger over: "
    "move the table back, and start the query with the old schema until this batch is committed. "
    'Then move the table again, and start with exactly_once(..., on_first="accept").'
)
_ALONE = "read that topic in a separate query, with a name and a table of its own"


class ErrorText(NamedTuple):
    """The text of an error, with placeholders.

    `{name}` is the query's name, and `{old}` a former name, both as Python literals. `{consent}` is
    the value that confirms a new checkpoint. `{rename}` is the command that gives a ledger the
    current sink and query name, `{move}` the command that changes only its sink; a colon precedes
    both. `{accept}` is the command that accepts the first gap. These three are empty for a sink
    whose ledger no command finds. `{back}` is `MOVE_BACK`, or empty if the table is in the same
    schema as before.
    """

    problem: str
    cause: str
    fix: str


def _to_see(has_it: str, *, all_there: str, none_there: str) -> str:
    steps = target_first(has_it, all_there=all_there, none_there=none_there)
    return steps[0].upper() + steps[1:]


_EACH_GAP = '{accept}every future gap: exactly_once(..., on_gap="accept")'

_PUT_BACK = (
    "the ledger's topic was restored to an older state, alone or with the rows, or was deleted"
)
_GAP_APART = ErrorText(
    "the ledger lacks offsets before it",
    f"the checkpoint is ahead of the ledger: {_PUT_BACK}; or a new checkpoint starts at the latest "
    "offset",
    _to_see(
        "the target has these records",
        all_there=f"or you can do without them, accept {_EACH_GAP}",
        none_there=f"start {_AGAIN}",
    ),
)
_BATCH_GAP_APART = ErrorText(
    "the ledger lacks batches before it",
    f"the checkpoint is ahead of the ledger: {_PUT_BACK}; or the function did not call "
    "exactly_once(...) for each batch",
    _to_see(
        "the target has the rows of these batches",
        all_there="or you can do without them, continue and record the gap: exactly_once(..., "
        'on_gap="accept")',
        none_there="start with a copy of the checkpoint that is as old as the ledger",
    ),
)
_SINK_IS_NEW = (
    "the sink is new to a query that has run without it; or the function did not call "
    "exactly_once(...) for batches "
)
_EMPTIED = (
    "the store was emptied or restored from a copy, or the query's rows in eo_ledger were deleted"
)


def _missing_apart(problem: str, batches: str, *, lacks: str, none_there: str) -> ErrorText:
    return ErrorText(
        problem,
        f"{_PUT_BACK}; or {_SINK_IS_NEW}{batches}",
        _to_see(
            "the target has what these batches wrote",
            all_there="or the sink is new to the query, or those batches had no rows, "
            'exactly_once(..., on_first="accept") begins at this batch and records that the '
            f"ledger lacks {lacks}",
            none_there=none_there,
        ),
    )


_UNKNOWN_APART = _missing_apart(
    "earlier batches of the query read these partitions, but the ledger does not have them",
    "of which a filter left no rows",
    lacks="the offsets before it",
    none_there=f"start {_AGAIN}",
)
_UNCOUNTED_APART = _missing_apart(
    "earlier batches of the query read sources other than Kafka, but the ledger does not have them",
    "without rows",
    lacks="those before it",
    none_there="with a new checkpointLocation everything is read again",
)
_IN_OLD_TABLE_APART = ErrorText(
    "this query has already written it to another sink of this ledger",
    "the sink's topics or its name= were changed while the query's last batch was in the old "
    "topics but not yet in the checkpoint's commits; if its rows went to a topic of this sink, "
    "they would be written twice",
    "(1) If the rows are in topics of this sink (name= was changed, or a topic added), carry its "
    "ledger over{move}, and keep the name, exactly_once(..., name={old}). (2) If they are in "
    "another topic, start the query once with the old sink, or with both sinks, until this batch "
    'is committed. Then start it with the new sink: exactly_once(..., on_first="accept"). (3) If '
    "another exactly_once(...) of the same foreachBatch function has the old sink, call that one "
    "first",
)
_RENAMED_APART = ErrorText(
    "the ledger has the query under another name",
    "queryName or name= was changed, or the sink's name= or topics",
    "To continue as before, use the old name and the old sink again, exactly_once(..., "
    "name={old}), or carry the ledger over{rename}. To begin at this batch under the new name, "
    "and record that the offsets before it are not under that name: exactly_once(..., "
    'on_first="accept")',
)


@dataclass(frozen=True, slots=True)
class _Kind:
    """An error class and its text; `apart` is the text for a ledger stored apart from its rows."""

    error: type[GuardError]
    problem: str
    cause: str
    fix: str
    apart: ErrorText | None = None

    def text(self, *, apart: bool) -> ErrorText:
        """Return the error's text. Set `apart` for a ledger that is kept apart from its rows."""
        return (self.apart if apart else None) or ErrorText(self.problem, self.cause, self.fix)


class BatchErrorKind(Enum):
    """The kinds of a batch's errors, the gravest first; kinds of one error class are neighbours."""

    RECREATED = _Kind(
        TopicRecreatedError,
        "the topic was deleted and recreated after the sink got its last rows",
        "the same offsets now belong to other records, and Spark does not notice",
        f"To read the new topic from its beginning, start {_WITH_NEW_CHECKPOINT}",
    )
    OTHER_CHECKPOINT = _Kind(
        NewCheckpointError,
        "the sink has batches of another checkpoint",
        "the checkpoint was deleted or replaced, or another query has this name. For sources "
        "other than Kafka only the batches of one checkpoint are known, so nothing shows which "
        "of these records the sink already has",
        "(1) Start with the old checkpoint. (2) If it is lost, let the sources other than Kafka "
        "begin after the records in the sink (or empty the table), and confirm that this "
        "checkpoint follows its last batch: exactly_once(sink, new_checkpoint={consent}). (3) If "
        'it is another query, give it a name of its own: exactly_once(..., name="...")',
    )
    VANISHED = _Kind(
        PartitionVanishedError,
        "it no longer reads partitions of which the sink has rows",
        "the topic was recreated with fewer partitions, or the source's option assign names fewer",
        (
            "Read these partitions again (option assign). To read a recreated topic from its "
            f"beginning, start {_WITH_NEW_CHECKPOINT}"
        ),
    )
    NOTHING_LEFT = _Kind(
        PartitionVanishedError,
        "it no longer reads any partition, so rows from the query's state could not be recorded "
        "as applied",
        "all topics of the query were deleted, and failOnDataLoss=false lets Spark continue",
        "Create the topics again, or stop the query: the open part of its state was not written",
    )
    GONE = _Kind(
        PartitionVanishedError,
        "it reads partitions that Kafka no longer has",
        "the topic was deleted after Spark planned the batch, and failOnDataLoss=false hides that "
        "its records cannot be read",
        "Find out what happened to the topic, and restart the query when the topic exists. To "
        f"read a recreated topic from its beginning, start {_WITH_NEW_CHECKPOINT}",
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
        "the topic was recreated or truncated, and failOnDataLoss=false lets Spark continue",
        "Find out what happened to the topic. The sink lacks the records that were written since "
        "the topic was recreated or truncated, below the first of these offsets; to get them, "
        f"{_ALONE}",
    )
    CUT_BACK = _Kind(
        RegressionError,
        "it reaches beyond the end of the log",
        "the log was truncated: records were lost in an unclean leader election",
        "Find out what happened to the topic, and restart the query when its log is complete "
        "again. If the records are lost, start the query under another name, since the ledger has "
        'the lost offsets: (1) exactly_once(..., name="..."). (2) On the source, '
        '.option("startingOffsets", starting_offsets(ledger=sink, query={name}, '
        'bootstrap_servers="...", out_of_range="latest")). (3) A new checkpointLocation. The query '
        "then begins at the end of the log, and skips the records written since the truncation",
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
        "another query, or an older checkpoint of this query, has applied it under this name",
        "two queries share one name, or the checkpoint was deleted and the query started from an "
        "old position",
        (
            'If there are two queries, give each a name of its own, exactly_once(..., name="..."). '
            f"If there is only one, start {_AGAIN}"
        ),
    )
    OVERLAP = _Kind(
        OverlapError,
        "the sink already has part of it, but not all",
        "the checkpoint lost its newest offsets/N and Spark planned that batch again with a "
        "different end, or another query has this name",
        _FROM_LEDGER,
    )
    REPLANNED = _Kind(
        OverlapError,
        "the sink has a batch of this number that was planned at another time",
        "the checkpoint lost its newest offsets/N, or a second query was started with a copy of "
        "it, and Spark planned the batch again, perhaps with other records",
        _WITH_ITS_CHECKPOINT,
    )
    UNDER_OLD_NAME = _Kind(
        NotInLedgerError,
        "the sink already has it, under another name in the ledger",
        "the query was renamed while its last batch was in the sink but not yet in the "
        "checkpoint's commits; under the new name its rows would be written twice",
        "(1) Carry the ledger over to the new name{rename}. (2) Or start the query under the old "
        "name, exactly_once(..., name={old}); when it has written its next batch, change the "
        'name: exactly_once(..., on_first="accept"). (3) If another exactly_once(...) of the same '
        "foreachBatch function uses the old name, call that one first",
    )
    IN_OLD_TABLE = _Kind(
        NotInLedgerError,
        "this query has already written it to another table of the store",
        "the sink's table= or schema= was changed while the query's last batch was in the old "
        "table but not yet in the checkpoint's commits; if the table itself was renamed, its "
        "rows would be written twice",
        "(1) If the table itself was renamed (ALTER TABLE), carry its ledger over{move}, and "
        "keep the name, exactly_once(..., name={old}).{back} (2) If the sink now names a different "
        "table, start the query once with the old table, or with a sink for each, until this "
        "batch is committed. Then start it with the new table: exactly_once(..., "
        'on_first="accept"). (3) If another exactly_once(...) of the same foreachBatch function '
        "writes the old table, call that one first",
        _IN_OLD_TABLE_APART,
    )
    RENAMED = _Kind(
        NotInLedgerError,
        "the ledger has the query under another name",
        "queryName or name= was changed, or the sink's table= or schema=",
        "To continue as before, use the old name and the old table again, exactly_once(..., "
        "name={old}), or carry the ledger over{rename}. To begin at this batch under the new "
        "name, and record that the offsets before it are not under that name: exactly_once(..., "
        'on_first="accept")',
        _RENAMED_APART,
    )
    UNKNOWN = _Kind(
        NotInLedgerError,
        "earlier batches of the query read these partitions, but the ledger does not have them",
        f"{_EMPTIED}; or {_SINK_IS_NEW}of which a filter left no rows",
        (
            f"(1) If the store has lost rows, restore it, or fill it again. {_FROM_LEDGER}. "
            "(2) If the sink is new to the query, or those batches had no rows, start with "
            'exactly_once(..., on_first="accept"): the ledger then begins at this batch, and '
            "records that it lacks the offsets before it"
        ),
        _UNKNOWN_APART,
    )
    UNCOUNTED = _Kind(
        NotInLedgerError,
        "earlier batches of the query read sources other than Kafka, but the ledger does not "
        "have them",
        f"{_EMPTIED}; or {_SINK_IS_NEW}without rows",
        "(1) If the store has lost rows, restore it; or empty the table and start with a new "
        "checkpointLocation, so that the query reads everything again. (2) If the sink is new to "
        'the query, or those batches had no rows, start with exactly_once(..., on_first="accept"): '
        "the ledger then begins at this batch, and records that it lacks the earlier batches",
        _UNCOUNTED_APART,
    )
    GAP = _Kind(
        GapError,
        "the sink lacks offsets before it",
        "the checkpoint is ahead of the sink: the sink was restored from a copy, or a new "
        "checkpoint starts at the latest offset",
        (
            f"{_FROM_LEDGER}. To continue without these records and record the gap, accept "
            f"{_EACH_GAP}"
        ),
        _GAP_APART,
    )
    LOST = _Kind(
        GapError,
        "Kafka deleted records of the batch before they could be read",
        "the topic's retention is shorter than the query's delay, and failOnDataLoss=false hides "
        "the loss",
        "Raise retention.ms of the topic, or make the query faster. To continue without these "
        'records and record the gap: exactly_once(..., on_gap="accept")',
    )
    BATCH_GAP = _Kind(
        GapError,
        "the sink lacks batches before it",
        "the checkpoint is ahead of the sink: the sink was restored from a copy; or the function "
        "did not call exactly_once(...) for each batch",
        "Restore the sink, or start with a copy of the checkpoint that is as old as the sink. To "
        'continue without these batches and record the gap: exactly_once(..., on_gap="accept")',
        _BATCH_GAP_APART,
    )
    MIXED = _Kind(
        PartialReplayError,
        "the sink already has these partitions of it, but not the others",
        "the checkpoint lost its newest offsets/N and Spark planned that batch again, or another "
        "query has this name",
        _FROM_LEDGER,
    )
