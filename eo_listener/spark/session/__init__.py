"""A Spark session with everything that eo_listener needs.

spark-submit, which pyspark runs to start the JVM, takes for each setting the first of: its own
option in `PYSPARK_SUBMIT_ARGS` (`--jars`), a `--conf` there (the last one), the builder,
`--properties-file` or `spark-defaults.conf`. `configure` merges with the value that would win, and
writes to the place that wins. Call it last: a later `.config("spark.jars.packages", ...)` replaces
what it added.

- Jars go to `PYSPARK_SUBMIT_ARGS`, never to the builder's `spark.jars`. pyspark sets the builder's
  options a second time, on the SparkContext, over what spark-submit made of them. With
  `spark.jars` and `spark.jars.packages` in one builder the resolved packages are lost there:
  `local[*]` works, and on a cluster every executor fails with ClassNotFoundException (seen on
  3.5.7 and 4.0.0). So the builder's own `spark.jars` are moved as well.
- `hadoop-client-api` and `-runtime` are excluded, because Spark has them.
- `ivysettings.xml` holds Spark's chain of local repositories and Maven Central, with
  `dual="true"`: a jar may come from another place than its pom. Spark's own chain fails on a pom
  that is in `~/.m2` without its jar. Artifacts that only `~/.m2` or `~/.ivy2/local` have are found
  as before.
- It is used only if nobody has chosen otherwise (`spark.jars.ivySettings`,
  `spark.jars.repositories`, `DEFAULT_ARTIFACT_REPOSITORY`), and, together with packages of the
  user's own, only if there is a `~/.m2/repository`. The one place that it leaves out is the old
  Spark Packages repository (name it in `spark.jars.repositories` to use it).
- "Too late" is decided by asking the running JVM for the two classes, not by comparing settings: a
  platform may add the jars in any way.
- The connector's Scala and Spark versions are read from the name of `spark-sql_*.jar` of the Spark
  that will be started (`SPARK_HOME`, else pyspark's).
"""
