"""Knowing, and proving, where Spark Structured Streaming stands in Kafka."""

__version__ = "0.1.0"
