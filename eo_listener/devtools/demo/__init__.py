"""The demo: real flights through a real Kafka and a real Spark query, to lag 0."""
