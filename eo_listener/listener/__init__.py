"""The listener that users add to Spark, and its settings."""
