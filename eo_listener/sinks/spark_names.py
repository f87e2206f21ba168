"""Names in Spark SQL. A KafkaSink loads this module without pyspark."""


def quoted(name: str) -> str:
    """Return `name` as a quoted identifier of Spark SQL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
