"""Stand-ins that implement this package's protocols, for tests of what is built on them."""

from eo_listener.testing.groups import Fault, MemoryGroups
from eo_listener.testing.queries import MemoryQueries
from eo_listener.testing.sink import MemorySink, SinkFault
from eo_listener.testing.store import MemoryStore, Transaction

__all__ = [
    "Fault",
    "MemoryGroups",
    "MemoryQueries",
    "MemorySink",
    "MemoryStore",
    "SinkFault",
    "Transaction",
]
