"""Stand-ins that implement the protocols of eo_listener in memory, for tests of other code."""

from eo_listener.testing.memory_groups import Fault, MemoryGroups
from eo_listener.testing.memory_queries import MemoryQueries
from eo_listener.testing.memory_sink import MemorySink, MemoryStore, SinkFault, Transaction

__all__ = [
    "Fault",
    "MemoryGroups",
    "MemoryQueries",
    "MemorySink",
    "MemoryStore",
    "SinkFault",
    "Transaction",
]
