"""Gives a Spark session everything that eo_listener needs.

spark-submit, which pyspark runs to start the JVM, takes for each setting the first of: its own
option in `PYSPARK_SUBMIT_ARGS` (`--jars`), a `--conf` there (the last one), the builder,
`--properties-file` or `spark-defaults.conf`. `configure` merges its additions with the value that
spark-submit would use, and writes the result where spark-submit finds it first. Call `configure`
last: a later `.config("spark.jars.packages", ...)` replaces its additions.

- Jars go to `PYSPARK_SUBMIT_ARGS`, never to the builder's `spark.jars`. pyspark sets the builder's
  options a second time, on the SparkContext, and overwrites the values that spark-submit has made
  from them. With `spark.jars` and `spark.jars.packages` in one builder, this loses the resolved
  packages: `local[*]` works, but on a cluster every executor fails with ClassNotFoundException
  (seen on 3.5.7 and 4.0.0). So `configure` moves the builder's own `spark.jars` as well.
- `configure` excludes `hadoop-client-api` and `-runtime`, because Spark has them.
- `ivysettings.xml` holds Spark's chain of local repositories and Maven Central, with `dual="true"`:
  a jar may come from another place than its pom. Spark's own chain fails if `~/.m2` has a pom
  without its jar. With this file, Ivy still finds artifacts that only `~/.m2` or `~/.ivy2/local`
  have.
- `configure` uses `ivysettings.xml` only if nothing else is configured (`spark.jars.ivySettings`,
  `spark.jars.repositories`, `DEFAULT_ARTIFACT_REPOSITORY`), and, if the user has packages too, only
  if there is a `~/.m2/repository`. The only place that the file leaves out is the old Spark
  Packages repository (name it in `spark.jars.repositories` to use it).
- To decide if it was called too late, `configure` asks the running JVM for one class of each part.
  It does not compare settings: a platform may add the jars in any way.
- The connector's Scala and Spark versions come from the name of `spark-sql_*.jar` in the Spark that
  will be started (`SPARK_HOME`, else pyspark's).
"""
