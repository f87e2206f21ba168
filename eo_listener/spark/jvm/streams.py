"""The streams that a live query reads, in the order in which Spark counts them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from eo_listener.spark.jvm.calls import call

KAFKA_PACKAGE: Final = "org.apache.spark.sql.kafka010."


def elements(sequence: Any) -> Iterator[Any]:
    """The elements of a Scala Seq; none when there is no Seq yet."""
    if sequence is not None:
        for place in range(sequence.size()):
            yield sequence.apply(place)


def streams(execution: Any) -> list[Any]:
    """The streams of the leaves, one used twice standing there twice.

    None before they are planned. May be asked at any time, unlike `logicalPlan`: that is lazy,
    and has to be made by the query's own thread, which sets these while it does so.
    """
    return list(elements(call(execution, "sources")))


def distinct_streams(execution: Any) -> list[Any]:
    """The streams in the order of a progress event. None before they are planned."""
    found = call(execution, "sources")
    return [] if found is None else list(elements(found.distinct()))


def is_kafka(stream: Any) -> bool:
    """Whether a stream is one of Spark's Kafka connector."""
    return class_name(stream).startswith(KAFKA_PACKAGE)


def class_name(stream: Any) -> str:
    """The full name of an object's class."""
    return str(stream.getClass().getName())
