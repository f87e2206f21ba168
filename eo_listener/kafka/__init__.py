"""Kafka through confluent-kafka: the only package that imports it, the broker's own aside."""

from eo_listener.kafka.clients import check
from eo_listener.kafka.groups import ConfluentGroups
from eo_listener.kafka.reader import ClusterReader

__all__ = ["ClusterReader", "ConfluentGroups", "check"]
