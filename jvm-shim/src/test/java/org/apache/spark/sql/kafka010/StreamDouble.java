package org.apache.spark.sql.kafka010;

/** In the place of the connector's streams, which are recognised by this package. */
public final class StreamDouble {}
