"""What is made of events: lines in the log, and numbers for Prometheus."""
