package org.apache.spark.sql.kafka010;

/** Stands for the connector's streams, which are recognised by this package. */
public final class StreamDouble {}
