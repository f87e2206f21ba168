"""Spark's JVM: the only place that touches py4j, whose objects have no types.

Nothing here reads or writes Kafka, and nothing here decides anything.
"""
