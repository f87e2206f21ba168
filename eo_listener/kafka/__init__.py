"""All that talks to Kafka: stores of consumer groups, readers, and the clients that they share."""
