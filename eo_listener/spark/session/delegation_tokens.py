"""Checks whether Spark is configured to log in to a Kafka cluster with delegation tokens."""

from __future__ import annotations

import re
from typing import Final

from pyspark import SparkContext

_CLUSTER: Final = re.compile(r"spark\.kafka\.clusters\.(.+)\.auth\.bootstrap\.servers")


def are_configured(servers: str) -> bool:
    """Return True if Spark's own clients log in to one of these brokers with a token.

    The function matches brokers as KafkaTokenUtil.findMatchingTokenClusterConfig does. In a client
    of Spark Connect, which does not know the driver's settings, it returns False.
    """
    context = SparkContext._active_spark_context  # noqa: SLF001  # getOrCreate would start one
    if context is None:
        return False
    settings = dict(context.getConf().getAll())
    targets = (
        settings.get(f"spark.kafka.clusters.{match[1]}.target.bootstrap.servers.regex", ".*")
        for match in map(_CLUSTER.fullmatch, settings)
        if match is not None
    )
    each = [server.strip() for server in servers.split(",")]
    return any(re.fullmatch(target, server) for target in targets for server in each)
