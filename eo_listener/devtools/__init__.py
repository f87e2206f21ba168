"""A broker, fetched artifacts and the demo: for development and tests, never part of a query."""
