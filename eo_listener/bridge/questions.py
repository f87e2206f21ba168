"""What is asked of the JVM over the pipe: running queries, and the shim's hands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from eo_listener.bridge.jvm_client import JvmClient
from eo_listener.model.errors import JvmError
from eo_listener.model.protocols import LivePosition, QueryMode
from eo_listener.spark import shim_answers

_PATIENCE: Final = 10.0  # a position may be read from a slow file system
_HANDS: Final = 60.0  # what they do has time limits of its own, below this


class BridgeQueries:
    """The `QueryReader` of the bridge: the shim answers for the queries of its driver.

    A query is held there from its start until `forget`, so it answers also when it has ended.
    """

    def __init__(self, pipe: JvmClient, forget: Callable[[str], None]) -> None:
        self._pipe = pipe
        self._forget = forget

    def options(self, query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:  # noqa: ARG002  # the protocol's
        """Reader options of the Kafka sources by index. Raises JvmError."""
        text = self._pipe.ask("sources", run_id=run_id, timeout=_PATIENCE)
        return {one.index: one.options for one in shim_answers.sources(text) if one.kafka}

    def mode(self, query_id: str, run_id: str) -> QueryMode:  # noqa: ARG002  # the protocol's
        """How the query makes its progress durable. Raises JvmError."""
        name = self._pipe.ask("mode", run_id=run_id, timeout=_PATIENCE)
        try:
            return QueryMode[name]
        except KeyError:
            raise JvmError(
                f"the shim reports an unknown execution mode: {name}",
                cause="the jar given to Spark is of another version than this package",
                fix="Give Spark the jar that `eo-listener jar` names",
            ) from None

    def position(self, query_id: str, run_id: str) -> LivePosition | None:  # noqa: ARG002  # the protocol's
        """What is durable now; None while the query restores its checkpoint. Raises JvmError."""
        return shim_answers.position(self._pipe.ask("position", run_id=run_id, timeout=_PATIENCE))

    def has_ended(self, query_id: str, run_id: str) -> bool:  # noqa: ARG002  # the protocol's
        """Whether the run is over, told or not. Raises JvmError."""
        return self._pipe.ask("ended", run_id=run_id, timeout=_PATIENCE) == "true"

    def forget(self, run_id: str) -> None:
        """Let go of a query, when all of it is committed."""
        self._forget(run_id)


class BridgeShimClient:
    """The `Hands` of the bridge: the shim does it in the driver's JVM."""

    def __init__(self, pipe: JvmClient) -> None:
        self._pipe = pipe

    def call(self, what: str, argument: str) -> str:
        """Do `what` with `argument`, as JSON texts, within a minute. Raises JvmError."""
        return self._pipe.ask("call", call=what, argument=argument, timeout=_HANDS)
