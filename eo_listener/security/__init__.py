"""The security settings of Spark's Kafka client, translated for ours."""

from __future__ import annotations

from eo_listener.security.access import Access, ClientKind, principal, translate
from eo_listener.security.stores import REQUEST, Store

__all__ = ["REQUEST", "Access", "ClientKind", "Store", "principal", "translate"]
