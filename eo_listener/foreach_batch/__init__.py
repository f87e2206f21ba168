"""Each batch of a query into each of its sinks once, and where a query begins."""
