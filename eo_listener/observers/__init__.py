"""Events as lines of the log, and as metrics for Prometheus."""
