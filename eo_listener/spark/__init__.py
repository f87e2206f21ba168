"""Works with Spark: its JVM, its checkpoints, and its sessions."""
