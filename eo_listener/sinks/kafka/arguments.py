"""What a user may give to `KafkaSink`: checked before anything is asked of Kafka. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from eo_listener.client_config.identities import MOST_BYTES, sink_transactional_id
from eo_listener.client_config.kafka_options import PREFIX
from eo_listener.client_config.validation import require_name
from eo_listener.model.errors import SettingsError, few

_TOPIC: Final = "topic"
# Of Spark's own sink: where rows go, and whether headers do, which here a column decides.
_OF_SPARK: Final = frozenset({_TOPIC, "includeheaders"})


def require_options(options: object, topics: Sequence[str]) -> None:
    """Raise SettingsError for what is no mapping of Spark's options, without a value of it.

    An option without `kafka.` would not be used at all, as by Spark itself.
    """
    if not isinstance(options, Mapping):
        raise SettingsError(
            f"the options of a KafkaSink are a {type(options).__name__}, and must be a dict",
            fix='KafkaSink({"kafka.bootstrap.servers": "host:9092"}, topic)',
        )
    for name in map(str, options):
        known = name.lower()
        if not known.startswith(PREFIX) and known not in _OF_SPARK:
            raise SettingsError(
                f"the option {name!r} is none of Spark's Kafka sink",
                cause=f"the options of Kafka's producer begin with {PREFIX!r} there",
                fix=f"Write {PREFIX + name!r}, or leave it out",
            )
        if known == _TOPIC and [options[name]] != [*topics]:
            raise SettingsError(
                f"the option 'topic' is not the topic of the sink ({few(topics)})",
                fix="Leave it out: the topics are the second argument",
            )


def require_method(write_method: object, dead_letters: str | None) -> None:
    """Raise SettingsError for a write method that is none, or has no dead letters."""
    if write_method not in ("driver", "executors"):
        raise SettingsError(
            f'write_method must be "driver" or "executors", got {write_method!r}',
            fix="Give one of them",
        )
    if write_method == "executors" and dead_letters is not None:
        raise SettingsError(
            'dead_letters= is not possible with write_method="executors"',
            cause="the executors do not bring rows to the driver, which writes dead letters",
            fix='Leave one of them out; or: write_method="driver"',
        )


def require_names(**given: object) -> None:
    """Raise SettingsError for the name of a sink or a group that is none; None is left out."""
    for what, name in given.items():
        if name is not None:
            if not isinstance(name, str) or not name:
                raise SettingsError(
                    f"{what}={name!r} cannot be the name of a {what}", fix="Give a text"
                )
            require_name(what, name)


def require_transactional_id(label: str, sink: str, query: str) -> None:
    """Raise SettingsError where the names of sink and query make an id that Kafka does not take.

    A broker would close the connection, as if it was away.
    """
    size = len(sink_transactional_id(sink, query))  # in ASCII
    if size > MOST_BYTES:
        raise SettingsError(
            f"{label}: the transactional id has {size:,} bytes, and Kafka takes {MOST_BYTES:,}",
            cause="it is made of the names of the sink and of the query; without name= a sink goes "
            "by the names of all its topics",
            fix='Give it a short name, and keep it: KafkaSink(..., name="...")',
        )


def topics_of(topic: object, dead_letters: str | None, ledger_topic: str) -> tuple[str, ...]:
    """Check the names of all topics; return those that rows go to."""
    topics = (topic,) if isinstance(topic, str) else _distinct(topic)
    if not topics:
        raise SettingsError(
            "the sink was given no topic", fix="Name one: KafkaSink(options, topic)"
        )
    others = () if dead_letters is None else (dead_letters,)
    for one in (*topics, *others, ledger_topic):
        if not isinstance(one, str) or not one:
            raise SettingsError(f"{one!r} cannot be the name of a topic", fix="Give its name")
        require_name("topic", one)
    if len({*topics, *others, ledger_topic}) < len(topics) + len(others) + 1:
        raise SettingsError(
            f"the topics of the sink ({few(topics)}), its dead_letters ({dead_letters}) and "
            f"its ledger_topic ({ledger_topic}) are not all different",
            fix="Give each a topic of its own",
        )
    return topics


def _distinct(topics: object) -> tuple[str, ...]:
    if not isinstance(topics, Sequence):
        raise SettingsError(
            f"{topics!r} cannot be the name of a topic",
            fix='Give its name, or a list of several: ["delays", "cancelled"]',
        )
    return tuple(dict.fromkeys(topics))
