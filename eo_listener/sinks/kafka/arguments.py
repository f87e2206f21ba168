"""Checks the arguments of `KafkaSink` before any request to Kafka. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from eo_listener.client_config.identities import MOST_BYTES, sink_transactional_id
from eo_listener.client_config.kafka_options import MAX_TRANSACTION_TIMEOUT_MS, PREFIX
from eo_listener.client_config.validation import require_name
from eo_listener.errors import SettingsError, few
from eo_listener.model.argument_checks import require_one_of

_TOPIC: Final = "topic"
# Options of Spark's sink: the topic, and whether it writes headers (here a column decides that).
_OF_SPARK: Final = frozenset({_TOPIC, "includeheaders"})
_WHY: Final = "without a transaction"
_DELIVERY: Final = "delivery.timeout.ms"

WriteMethod = Literal["driver", "executors"]
OnRepeated = Literal["fail", "accept"]


def require_options(options: object, topics: Sequence[str]) -> None:
    """Raise SettingsError if `options` are not options of Spark's Kafka sink.

    The error shows no values of options. The function also refuses options without the prefix
    `kafka.`, which Spark itself would ignore.
    """
    if not isinstance(options, Mapping):
        raise SettingsError(
            f"the options of a KafkaSink must be a dict, got {type(options).__name__}",
            fix='KafkaSink({"kafka.bootstrap.servers": "host:9092"}, topic)',
        )
    for name in map(str, options):
        folded = name.lower()
        if not folded.startswith(PREFIX) and folded not in _OF_SPARK:
            raise SettingsError(
                f"Spark's Kafka sink has no option {name!r}",
                cause=f"options of Kafka's producer begin with {PREFIX!r}, as in Spark's Kafka "
                "sink",
                fix=f"Write {PREFIX + name!r}, or remove it",
            )
        if folded == _TOPIC and [options[name]] != [*topics]:
            raise SettingsError(
                f"the option 'topic' differs from the topic of the sink ({few(topics)})",
                fix="Remove it: the topics are the second argument",
            )


def method_of(write_method: object, *, transactions: bool, dead_letters: str | None) -> WriteMethod:
    """Return the write method to use; None means the default. Raises SettingsError."""
    require_one_of("write_method", write_method, (None, "driver", "executors"))
    if write_method == "driver" and not transactions:
        raise SettingsError(
            'write_method="driver" cannot be combined with transactions=False',
            cause="without a transaction only executors send rows, with one task for each "
            "target partition",
            fix="Remove one of them",
        )
    if write_method == "executors" and dead_letters is not None:
        raise SettingsError(
            'dead_letters= cannot be combined with write_method="executors"',
            cause="the executors do not send rows to the driver, which writes dead letters",
            fix='Remove one of them, or use write_method="driver"',
        )
    if write_method == "executors" or not transactions:
        return "executors"
    return "driver"


def require_names(**names: object) -> None:
    """Raise SettingsError for an invalid name of a sink or group; a name that is None is valid."""
    for argument, name in names.items():
        if name is not None:
            if not isinstance(name, str) or not name:
                text = f"{argument}={name!r} is not a valid {argument}"
                raise SettingsError(text, fix="Give a string")
            require_name(argument, name)


def require_transactional_id(label: str, sink: str, query: str) -> None:
    """Raise SettingsError if the transactional id of this sink and query is too long for Kafka.

    A broker that receives such an id closes the connection, as if the broker were down.
    """
    size = len(sink_transactional_id(sink, query))  # in ASCII
    if size > MOST_BYTES:
        raise SettingsError(
            f"{label}: the transactional id has {size:,} bytes, but Kafka allows {MOST_BYTES:,}",
            cause="it is made of the names of the sink and the query; without name= a sink is "
            "named after all its topics",
            fix="Give the sink a short name, and do not change the name later: "
            'KafkaSink(..., name="...")',
        )


def topics_of(topic: object, dead_letters: str | None, ledger_topic: str) -> tuple[str, ...]:
    """Check the names of all topics; return the topics that rows go to."""
    if not isinstance(topic, Sequence):
        raise SettingsError(
            f"{topic!r} is not a valid topic name",
            fix='Give the name as a string, or a list of names: ["delays", "cancelled"]',
        )
    topics = (topic,) if isinstance(topic, str) else tuple(dict.fromkeys(topic))
    if not topics:
        raise SettingsError("the sink has no topic", fix="Name a topic: KafkaSink(options, topic)")
    names: list[object] = [*topics, *([] if dead_letters is None else [dead_letters]), ledger_topic]
    for name in names:
        if not isinstance(name, str) or not name:
            raise SettingsError(
                f"{name!r} is not a valid topic name", fix="Give the name as a string"
            )
        require_name("topic", name)
    if len(set(names)) < len(names):
        raise SettingsError(
            f"the topics of the sink ({few(topics)}), its dead_letters ({dead_letters}) and "
            f"its ledger_topic ({ledger_topic}) are not all different",
            fix="Give each its own topic",
        )
    return topics


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfencedSettings:
    """The settings of a sink without transactions.

    `identity` are the columns that identify a row; None stands for the source's topic, partition
    and offset. `accept` is True if the sink continues after rows were duplicated or lost.
    """

    identity: tuple[str, ...] | None
    accept: bool

    @classmethod
    def from_arguments(
        cls,
        *,
        transactions: bool,
        identity: str | Sequence[str] | None,
        on_repeated: str,
        tuning: Mapping[str, str],
        group: str | None,
        dead_letters: str | None,
    ) -> UnfencedSettings | None:
        """Return the settings of a sink without transactions, or None if it has transactions.

        `tuning` are the properties of the sink's producer, in librdkafka's names. Raises
        SettingsError.
        """
        if not isinstance(transactions, bool):
            raise SettingsError(
                f"transactions must be True or False, got {transactions!r}", fix="Pass one of these"
            )
        require_one_of("on_repeated", on_repeated, ("fail", "accept"))
        if transactions:
            if identity is None and on_repeated == "fail":
                return None
            name = "on_repeated" if identity is None else "id"
            raise SettingsError(
                f"{name}= has no meaning with transactions",
                cause="with transactions rows cannot be duplicated",
                fix=f"Remove {name}=, or add transactions=False",
            )
        _refuse_together(group, dead_letters)
        _refuse_endless(tuning.get(_DELIVERY))
        return cls(identity=_names(identity), accept=on_repeated == "accept")


def _refuse_together(group: str | None, dead_letters: str | None) -> None:
    if group is not None:
        raise SettingsError(
            "group= cannot be combined with transactions=False",
            cause=f"{_WHY} the group's offsets and the rows cannot be committed together",
            fix="Remove group=, and let the listener commit the checkpoint's offsets: set "
            f"the reader's option eo.commit.group={group}, and add OffsetCommitListener",
        )
    if dead_letters is not None:
        raise SettingsError(
            "dead_letters= cannot be combined with transactions=False",
            cause=f"{_WHY} a batch refused for too many dead letters would leave rows behind",
            fix="Filter such rows out in the transform, and write them with a second sink: "
            "return [good, bad] for two sinks",
        )


def _refuse_endless(delivery: str | None) -> None:
    """Raise SettingsError for an invalid delivery time-out; librdkafka takes 0 as infinite."""
    if delivery is None:
        return
    text = delivery.strip()
    if not text.isdigit() or not 1 <= int(text) <= MAX_TRANSACTION_TIMEOUT_MS:
        raise SettingsError(
            f"the option kafka.{_DELIVERY} must be from 1 to {MAX_TRANSACTION_TIMEOUT_MS:,} with "
            "transactions=False",
            cause="nothing else ends a batch whose records no broker accepts",
            fix="Remove it (the default is two minutes), or lower it",
        )


def _names(identity: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if identity is None:
        return None
    names = (identity,) if isinstance(identity, str) else tuple(identity)
    if not names or not all(names):
        raise SettingsError(
            f"id= must name at least one column, got {identity!r}",
            fix='Name columns that are unique together: id=("column", ...)',
        )
    if len(set(names)) < len(names):
        raise SettingsError(f"id= names a column twice: {names!r}", fix="Name each column once")
    return names
