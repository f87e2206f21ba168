"""What each run of a query has made durable, and for which groups."""
