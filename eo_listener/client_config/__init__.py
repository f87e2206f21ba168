"""From the `kafka.*` options of a source to the settings of a Kafka client."""
