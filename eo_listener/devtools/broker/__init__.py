"""A real Apache Kafka in KRaft mode, for development and tests."""

from eo_listener.devtools.broker.broker import Broker
from eo_listener.devtools.broker.group_table import GroupRow, GroupState, parse_rows, parse_states
from eo_listener.devtools.broker.listeners import Listener
from eo_listener.devtools.broker.programs import commands, consumer_groups
from eo_listener.devtools.broker.releases import DEFAULT

__all__ = [
    "DEFAULT",
    "Broker",
    "GroupRow",
    "GroupState",
    "Listener",
    "commands",
    "consumer_groups",
    "parse_rows",
    "parse_states",
]
