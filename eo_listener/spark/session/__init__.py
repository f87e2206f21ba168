"""Gives a Spark session everything that eo_listener needs.

spark-submit, which pyspark runs to start the JVM, looks for each setting in this order: the
setting's own option in `PYSPARK_SUBMIT_ARGS` (`--jars`, for example), the last `--conf` there, the
builder, `--properties-file` or `spark-defaults.conf`. `configure` merges its additions with the
value that spark-submit would use, and writes the result where spark-submit finds it first. Call
`configure` last: a later `.config("spark.jars.packages", ...)` replaces its additions.

- Jars go to `PYSPARK_SUBMIT_ARGS`, never to the builder's `spark.jars`. pyspark sets the builder's
  options a second time, on the SparkContext, and so overwrites the values that spark-submit has
  computed from them. With `spark.jars` and `spark.jars.packages` in one builder, the resolved
  packages are lost: `local[*]` works, but on a cluster every executor fails with
  ClassNotFoundException (seen on 3.5.7 and 4.0.0). So `configure` moves the builder's own
  `spark.jars` as well.
- `configure` excludes `hadoop-client-api` and `hadoop-client-runtime`, because Spark has them.
- `ivysettings.xml` holds Spark's chain of local repositories and Maven Central, with `dual="true"`:
  a jar and its pom may come from different places. Spark's own chain fails if `~/.m2` has a pom
  without its jar. With this file, Ivy still finds artifacts that only `~/.m2` or `~/.ivy2/local`
  have.
- `configure` uses `ivysettings.xml` only if nothing else is configured (`spark.jars.ivySettings`,
  `spark.jars.repositories`, `DEFAULT_ARTIFACT_REPOSITORY`). If the user has packages too, there
  must also be a `~/.m2/repository`. The file leaves out only the old Spark Packages repository (to
  use that repository, name it in `spark.jars.repositories`).
- To find out whether it was called too late, `configure` asks the running JVM for one class of each
  part. It does not compare settings, because a platform may add the jars in any way.
- The connector's Scala and Spark versions come from the name of `spark-sql_*.jar` in the Spark
  installation that pyspark will start (`SPARK_HOME`, else pyspark's own).
"""
