"""Where there is no JVM to ask: in a client of Spark Connect, whose queries run elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from eo_listener.model.errors import JvmError
from eo_listener.model.protocols import LivePosition, QueryMode


class NoQueries:
    """A `QueryReader` that can answer for no query. Every question raises JvmError."""

    def options(self, query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:  # noqa: ARG002  # the protocol's
        """Raise JvmError."""
        raise _out_of_reach(query_id)

    def mode(self, query_id: str, run_id: str) -> QueryMode:  # noqa: ARG002  # the protocol's
        """Raise JvmError."""
        raise _out_of_reach(query_id)

    def position(self, query_id: str, run_id: str) -> LivePosition | None:  # noqa: ARG002  # the protocol's
        """Raise JvmError."""
        raise _out_of_reach(query_id)

    def has_ended(self, query_id: str, run_id: str) -> bool:  # noqa: ARG002  # the protocol's
        """Raise JvmError."""
        raise _out_of_reach(query_id)

    def forget(self, run_id: str) -> None:
        """Nothing was held of it."""


def _out_of_reach(query_id: str) -> JvmError:
    return JvmError(
        f"query {query_id} cannot be asked",
        cause="it runs on a Spark Connect server, and this is its client",
        fix="Give the server the listener by configuration, or name servers and groups here",
    )
