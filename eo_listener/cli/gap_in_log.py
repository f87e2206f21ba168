"""What the source's log has of a gap that is to be accepted: what is given up with it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from eo_listener.kafka.logs import NOTHING_HELD, Logs
from eo_listener.model.errors import KafkaError, SettingsError, counted
from eo_listener.model.ledger import Head
from eo_listener.model.offsets import OffsetRange, TopicPartition

_TIMEOUT: Final = 10.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class GapInLog:
    """A gap beside its log. `unknown` says why it was not compared; `log` is None then."""

    gap: OffsetRange
    log: OffsetRange | None = None
    unknown: str = ""

    @property
    def kept(self) -> OffsetRange | None:
        """What of it the log still has; None where it has nothing of it."""
        if self.log is None or self.gap.until <= self.log.start:
            return None
        return OffsetRange(max(self.gap.start, self.log.start), self.gap.until)

    @property
    def lines(self) -> tuple[str, ...]:
        """What is given up, for people."""
        count = self.gap.until - self.gap.start
        given_up = f"given up: {counted(count, 'offset')}, so up to {counted(count, 'record')}"
        kept = self.kept
        if self.log is None:
            return (given_up, f"not compared with the source's log: {self.unknown}")
        if kept is None:
            later = OffsetRange(self.gap.until, self.log.start)
            found = [given_up, "Kafka has deleted all of them"]
            if later.start < later.until:
                found.append(f"the log begins at {later.until}: {later} will be another gap")
            return tuple(found)
        left = kept.until - kept.start
        return (
            given_up,
            f"Kafka still has {left:,} of these offsets, {kept}: no batch will read them",
        )

    def document(self) -> dict[str, Any]:
        """Its form in JSON; `in_log` is None where it was not compared, `not_compared` why."""
        kept = self.kept
        return {
            "offsets": self.gap.until - self.gap.start,
            "in_log": None if self.log is None else 0 if kept is None else kept.until - kept.start,
            "not_compared": self.unknown or None,
        }


def compare_gap(
    properties: Mapping[str, str] | None, tp: TopicPartition, gap: OffsetRange, head: Head
) -> GapInLog:
    """Compare a gap with the log of its partition; without a cluster it is not compared.

    Raises SettingsError where the gap goes beyond the end of the log, or the topic is another one
    than the ledger's.
    """
    if properties is None:
        return GapInLog(gap=gap, unknown="add -b HOST:PORT")
    servers = properties.get("bootstrap.servers", "")
    try:
        with closing(Logs(properties)) as logs:
            snapshot = logs.snapshot(NOTHING_HELD, [tp], time.monotonic() + _TIMEOUT)
        snapshot = snapshot.whole()
    except KafkaError as error:
        return GapInLog(gap=gap, unknown=str(error))
    if tp not in snapshot.ends:
        return GapInLog(gap=gap, unknown=f"{servers} does not have {tp}")
    topic_id = snapshot.topic_ids.get(tp.topic)
    if None not in (topic_id, head.topic_id) and topic_id != head.topic_id:
        raise SettingsError(
            f"topic {tp.topic} at {servers} is not the one that the ledger speaks of: its id was "
            f"{head.topic_id}, and is {topic_id}",
            cause="it was deleted and created again, so every offset means another record; or this "
            "is another cluster",
            fix="Check -b: it names the source's cluster, and kafka://HOST:PORT/TOPIC that of a "
            "ledger which is on another one. For a topic that was recreated type eo-listener audit",
        )
    log = OffsetRange(snapshot.starts[tp], snapshot.ends[tp])
    if gap.until > log.until:
        raise SettingsError(
            f"the gap {gap} goes beyond the end of the log: {tp} at {servers} ends at {log.until}",
            cause="the number is another one; what is written there later would never be read",
            fix="Give the gap as the error of the query or the audit names it; it ends at "
            f"{log.until} at the most",
        )
    return GapInLog(gap=gap, log=log)
