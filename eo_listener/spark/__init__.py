"""Everything that deals with Spark: its JVM, its checkpoints, its session."""
