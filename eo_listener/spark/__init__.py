"""Everything that asks Spark: its JVM, its checkpoints, its session."""
