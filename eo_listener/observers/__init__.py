"""Observers that write events to the log, and count them for Prometheus and OpenTelemetry."""
