"""Kafka through confluent-kafka: groups and log ends. Only the broker and the demo use it too."""

from eo_listener.kafka.groups import ConfluentGroups
from eo_listener.kafka.modes import MODES, check, open_groups
from eo_listener.kafka.reader import ClusterReader
from eo_listener.kafka.records import RecordReader

__all__ = ["MODES", "ClusterReader", "ConfluentGroups", "RecordReader", "check", "open_groups"]
