"""A Spark session with everything that eo_listener needs."""
