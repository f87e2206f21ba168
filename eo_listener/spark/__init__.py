"""The modules that deal with Spark: its JVM, its checkpoints, and its sessions."""
