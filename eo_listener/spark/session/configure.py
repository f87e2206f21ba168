"""Adds the jars and settings that eo_listener needs to a SparkSession's builder.

spark-submit, which pyspark runs to start the JVM, decides what Spark loads. It looks for a setting
in this order: an option in `PYSPARK_SUBMIT_ARGS`, a `--conf` there, the builder,
spark-defaults.conf. So `configure` merges each addition with the value that spark-submit would use,
and writes the result where spark-submit finds it first.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eo_listener.errors import JvmAlreadyRunningError, SettingsError
from eo_listener.spark import java
from eo_listener.spark import shim as shim_jar
from eo_listener.spark.session import delta_lake, iceberg_runtime, installation
from eo_listener.spark.session.installation import CONNECTOR, Installation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS: Final = "spark.jars"
PACKAGES: Final = "spark.jars.packages"
EXCLUDES: Final = "spark.jars.excludes"
REPOSITORIES: Final = "spark.jars.repositories"
IVY_SETTINGS: Final = "spark.jars.ivySettings"

# Spark already has both, shaded; requesting them again only adds 50 MB that may be unavailable.
HADOOP: Final = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime")
OUR_IVY_SETTINGS: Final = Path(__file__).with_name("ivysettings.xml")

logger = logging.getLogger("eo_listener")


def configure(
    builder: SparkSession.Builder,
    *,
    connector: bool = True,
    shim: bool = True,
    delta: bool = False,
    iceberg: bool = False,
) -> SparkSession.Builder:
    """Add the shim and this Spark's Kafka connector to `builder`, and return it.

    Call this function last, just before `getOrCreate`, in a program that `python` starts, not
    spark-submit. The function registers no listener.

    - `connector=False` leaves out the connector, `shim=False` the shim.
    - `delta=True` adds the release of Delta Lake that fits this Spark, with its extension and
      catalog.
    - `iceberg=True` adds the Iceberg runtime that fits this Spark and its Scala, with its
      extension. It adds no catalog: configure your own.

    The function keeps jars and packages that are already configured, and the user's settings,
    whether these come from the builder, PYSPARK_SUBMIT_ARGS or spark-defaults.conf. A second call
    changes nothing.

    Jars, including the builder's own, go into the environment variable PYSPARK_SUBMIT_ARGS.

    Raises JvmAlreadyRunningError if the JVM already runs without these parts, SettingsError (also
    if the named Iceberg runtime is for another Spark), JavaError, and UnavailableError if the shim
    jar is missing.
    """
    options = _options_of(builder)
    arguments = SubmitArguments.parse(os.environ.get(VARIABLE, ""))
    _refuse_connect(options, arguments)
    spark = Installation.find()
    _compare(spark)
    parts = {"connector": connector, "shim": shim, "delta": delta, "iceberg": iceberg}
    if not _running_jvm_has_all(spark, parts):
        java.find(spark.oldest_java, spark.newest_java, user=f"Spark {spark.version}")
        settings = Settings(
            options=options, arguments=arguments, defaults=spark_defaults(spark, arguments)
        )
        if shim:
            settings.add(JARS, [str(shim_jar.jar())])
        if connector:
            _add_connector(settings, spark)
        if delta:
            _add_library(settings, spark, delta_lake)
            if settings.get(delta_lake.SESSION_CATALOG) is None:
                settings.options[delta_lake.SESSION_CATALOG] = delta_lake.CATALOG
        if iceberg:
            _refuse_other_iceberg(settings, spark)
            _add_library(settings, spark, iceberg_runtime)
        _apply(settings)
    return builder


@dataclass(slots=True, kw_only=True)
class Settings:
    """The settings from all places in which spark-submit looks, in its order."""

    arguments: SubmitArguments
    options: dict[str, Any]  # the builder's own options, changed in place
    defaults: Mapping[str, str]

    def get(self, key: str) -> str | None:
        """Return the value that spark-submit would use."""
        value = self.arguments.setting(key)
        if value is None and self.options.get(key) is not None:
            value = str(self.options[key])
        return value if value is not None else self.defaults.get(key)

    def items(self, key: str) -> list[str]:
        """Return the value that spark-submit would use, split at commas."""
        return [item.strip() for item in (self.get(key) or "").split(",") if item.strip()]

    def add(self, key: str, new: list[str]) -> None:
        """Append the missing items of `new` to the value that spark-submit would use."""
        existing = self.items(key)
        value = ",".join([*existing, *(item for item in new if item not in existing)])
        if key == JARS or self.arguments.setting(key) is not None:
            self.arguments = self.arguments.with_setting(key, value)
        else:
            self.options[key] = value


def _add_connector(settings: Settings, spark: Installation) -> None:
    items = [*settings.items(JARS), *settings.items(PACKAGES)]
    if not spark.has_connector and not any(CONNECTOR in item for item in items):
        _add_package(settings, spark.connector)


def _add_library(settings: Settings, spark: Installation, library: Any) -> None:
    """Add a table format's `library` unless the session has it. Raises SettingsError."""
    if not _present(settings, spark, library):
        _add_package(settings, _coordinates(library, spark))
    settings.add(delta_lake.EXTENSIONS, [library.EXTENSION])


def _present(settings: Settings, spark: Installation, library: Any) -> list[str]:
    """Return the jars and packages of `library` that the session has without this function."""
    own = [str(file) for file in spark.home.glob(f"jars/{library.NAME}*.jar")]
    items = [*own, *settings.items(JARS), *settings.items(PACKAGES)]
    return [item for item in items if library.NAME in item]


def _refuse_other_iceberg(settings: Settings, spark: Installation) -> None:
    for item in _present(settings, spark, iceberg_runtime):
        made_for = iceberg_runtime.misfit(item, spark.version, spark.scala)
        if made_for is not None:
            raise SettingsError(
                f"{item.rpartition('/')[2]} is for {made_for}, but this is Spark {spark.version} "
                f"with Scala {spark.scala}",
                cause=f"it is in {spark.home}/jars"
                if item.startswith(f"{spark.home}/")
                else f"it is in {JARS} or {PACKAGES}",
                fix="Remove it: configure(..., iceberg=True) adds "
                f"{_coordinates(iceberg_runtime, spark)}",
            )


def _coordinates(library: Any, spark: Installation) -> str:
    """Return the coordinates of a library for this Spark. Raises SettingsError if none fits."""
    coordinates: str | None = library.coordinates(spark.version, spark.scala)
    if coordinates is None:
        raise SettingsError(
            f"no {library.TITLE} exists for Spark {spark.version} with Scala {spark.scala}",
            fix=f"Use Spark {library.supported()}, or remove {library.OPTION}",
        )
    return coordinates


def _add_package(settings: Settings, coordinates: str) -> None:
    own_packages = bool(settings.items(PACKAGES))
    settings.add(PACKAGES, [coordinates])
    settings.add(EXCLUDES, list(HADOOP))
    chosen = settings.get(IVY_SETTINGS) or settings.get(REPOSITORIES)
    if chosen or os.environ.get("DEFAULT_ARTIFACT_REPOSITORY"):
        return
    # Our Ivy settings look in every place in which Spark looks, except one old public repository.
    # Without a ~/.m2 they have no advantage, and the user's own packages may come from that
    # repository.
    if not own_packages or Path("~/.m2/repository").expanduser().exists():
        settings.options[IVY_SETTINGS] = str(OUR_IVY_SETTINGS)


def _apply(settings: Settings) -> None:
    # Not in the builder's spark.jars: pyspark sets the builder's options again on the SparkContext,
    # and overwrites the values that spark-submit computed from them. Then the jars of all packages
    # would be lost, and with them the connector on every executor of a cluster.
    if settings.arguments.setting(JARS) is not None:
        settings.options.pop(JARS, None)
    os.environ[VARIABLE] = settings.arguments.render()


def spark_defaults(spark: Installation, arguments: SubmitArguments) -> dict[str, str]:
    """Read spark-defaults.conf, or the file that the arguments name. Raises SettingsError."""
    folder = os.environ.get("SPARK_CONF_DIR") or spark.home / "conf"
    standard = Path(folder, "spark-defaults.conf")
    named = arguments.value("--properties-file")
    if named is None:
        return installation.read_settings(standard)
    also_standard = any(name == "--load-spark-defaults" for name, _ in arguments.options)
    return {
        **(installation.read_settings(standard) if also_standard else {}),
        **installation.read_settings(Path(named)),
    }


def _options_of(builder: Any) -> dict[str, Any]:
    options = getattr(builder, "_options", None)
    if not isinstance(options, dict) or not hasattr(builder, "getOrCreate"):
        raise SettingsError(
            f"configure takes a builder, not {type(builder).__name__}",
            fix="configure(SparkSession.builder.appName(...)).getOrCreate()",
        )
    if type(builder).__module__.startswith("pyspark.sql.connect"):
        raise _connect_error("the builder is a Spark Connect builder")
    return options


def _refuse_connect(options: Mapping[str, Any], arguments: SubmitArguments) -> None:
    api = arguments.setting("spark.api.mode")
    signs = {
        f"{VARIABLE} has --remote": arguments.value("--remote") is not None,
        f"{VARIABLE} has spark.remote": arguments.setting("spark.remote") is not None,
        f"{VARIABLE} has spark.api.mode=connect": api == "connect",
        "the builder has spark.remote": "spark.remote" in options,
        "spark.api.mode is connect": options.get("spark.api.mode") == "connect",
        "SPARK_REMOTE is set": "SPARK_REMOTE" in os.environ,
        "SPARK_API_MODE is connect": os.environ.get("SPARK_API_MODE") == "connect",
        "SPARK_CONNECT_MODE is 1": os.environ.get("SPARK_CONNECT_MODE") == "1",
        "a Connect session is open": "SPARK_CONNECT_MODE_ENABLED" in os.environ,
    }
    for sign, is_present in signs.items():
        if is_present:
            raise _connect_error(sign)


def _compare(spark: Installation) -> None:
    """Log a warning if pyspark and the Spark that it will start have different versions."""
    pyspark = str(getattr(sys.modules.get("pyspark"), "__version__", spark.version))
    if pyspark.split(".")[:2] != spark.version.split(".")[:2]:
        logger.warning(
            "pyspark is %s but will start Spark %s in %s (SPARK_HOME), which may not fit it; the "
            "connector is chosen for Spark %s. Fix: unset SPARK_HOME, or install pyspark==%s",
            pyspark,
            spark.version,
            spark.home,
            spark.version,
            spark.version,
        )


def _connect_error(sign: str) -> SettingsError:
    return SettingsError(
        "configure is for a session whose JVM it starts, not for Spark Connect",
        cause=sign,
        fix="Pass the jars to the Connect server when you start it: start-connect-server.sh "
        '--jars "$(eo-listener jar)"',
    )


def _running_jvm_has_all(spark: Installation, needed: Mapping[str, bool]) -> bool:
    """Return True if the running JVM has all needed parts, False if no JVM is running.

    Raises JvmAlreadyRunningError if the running JVM lacks a part.
    """
    from eo_listener.spark.jvm import calls  # noqa: PLC0415 - imports pyspark: a missing pyspark is reported above

    if not calls.is_running():
        return False
    classes = {
        "shim": calls.SHIM,
        "connector": calls.KAFKA,
        "delta": calls.DELTA,
        "iceberg": calls.ICEBERG,
    }
    missing = {part for part, name in classes.items() if needed[part] and not calls.has_class(name)}
    if missing:
        raise too_late(spark, missing, submitted=calls.under_submit())
    return True


_TITLES: Final = {
    "shim": "the shim",
    "connector": "the Kafka connector",
    "delta": "Delta Lake",
    "iceberg": "Iceberg",
}


def too_late(
    spark: Installation, missing: Collection[str], *, submitted: bool
) -> JvmAlreadyRunningError:
    """Return the error that names the JVM's missing parts, and a command that adds them."""
    lacking = " and ".join(title for part, title in _TITLES.items() if part in missing)
    libraries: dict[str, Any] = {"delta": delta_lake, "iceberg": iceberg_runtime}
    lacking_libraries = [library for part, library in libraries.items() if part in missing]
    packages = [spark.connector] if "connector" in missing else []
    packages += [_coordinates(library, spark) for library in lacking_libraries]
    command = ["spark-submit"]
    if "shim" in missing:
        command.append('--jars "$(eo-listener jar)"')
    if packages:
        command += ["--packages", ",".join(packages), "--exclude-packages", ",".join(HADOOP)]
    if extensions := ",".join(library.EXTENSION for library in lacking_libraries):
        command += ["--conf", f"{delta_lake.EXTENSIONS}={extensions}"]
    if "delta" in missing:
        command += ["--conf", f"{delta_lake.SESSION_CATALOG}={delta_lake.CATALOG}"]
    command.append(sys.argv[0] if submitted and sys.argv[0] else "job.py")
    line = " ".join(command)
    return JvmAlreadyRunningError(
        f"configure was called too late: the JVM is already running, without {lacking}",
        cause="spark-submit started it before this program"
        if submitted
        else "this process has already started a Spark session",
        fix=line
        if submitted
        else "Call configure before the first session of the process, or start the process "
        f"with: {line}",
    )


VARIABLE: Final = "PYSPARK_SUBMIT_ARGS"
SHELL: Final = "pyspark-shell"

OPTIONS: Final = {
    "spark.jars": "--jars",
    "spark.jars.packages": "--packages",
    "spark.jars.excludes": "--exclude-packages",
    "spark.jars.repositories": "--repositories",
}
"""The settings that have their own option, which overrides any `--conf`."""

# From Spark's SparkSubmitOptionParser: all other options take a value.
_SWITCHES: Final = frozenset(
    {
        "--help",
        "--load-spark-defaults",
        "--supervise",
        "--usage-error",
        "--verbose",
        "--version",
        "-h",
        "-v",
    }
)
_CONF: Final = ("--conf", "-c")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitArguments:
    """Options with their values (None for a switch), and the arguments after the options."""

    options: tuple[tuple[str, str | None], ...] = ()
    rest: tuple[str, ...] = (SHELL,)

    @classmethod
    def parse(cls, text: str) -> SubmitArguments:
        """Read the arguments as Spark does. Raises SettingsError if `text` is malformed."""
        try:
            tokens = shlex.split(text)
        except ValueError as error:
            raise SettingsError(
                f"{VARIABLE} cannot be read: {error}", fix=f"Correct or unset {VARIABLE}"
            ) from error
        options: list[tuple[str, str | None]] = []
        while tokens and tokens[0].startswith("-"):
            name, equals, value = tokens.pop(0).partition("=")
            if name in _SWITCHES:
                options.append((name, None))
            elif equals:
                options.append((name, value))
            elif tokens:
                options.append((name, tokens.pop(0)))
            else:
                raise SettingsError(
                    f"{VARIABLE} ends with {name}, which needs a value",
                    fix=f"Correct or unset {VARIABLE}",
                )
        return cls(options=tuple(options), rest=tuple(tokens) or (SHELL,))

    def render(self) -> str:
        """Return the text from which `parse` reads the same arguments."""
        words = [word for option in self.options for word in option if word is not None]
        return shlex.join([*words, *self.rest])

    def value(self, option: str) -> str | None:
        """Return the value of an option; if it occurs several times, the last, as in Spark."""
        return dict(self.options).get(option)

    def setting(self, key: str) -> str | None:
        """Return the value of a setting, from its own option or else from its last `--conf`."""
        own = self.value(OPTIONS[key]) if key in OPTIONS else None
        if own is not None:
            return own
        values = [value for name, value in self.options if _names(name, value, key)]
        return values[-1].partition("=")[2] if values and values[-1] is not None else None

    def with_setting(self, key: str, value: str) -> SubmitArguments:
        """Return the arguments with `key` set to `value`, and without earlier values of `key`.

        If the setting has its own option, the result uses that option, since it overrides any
        `--conf`.
        """
        own = OPTIONS.get(key)
        remaining = [
            (name, old) for name, old in self.options if name != own and not _names(name, old, key)
        ]
        added = (own, value) if own is not None else (_CONF[0], f"{key}={value}")
        return replace(self, options=(*remaining, added))


def _names(option: str, value: str | None, key: str) -> bool:
    return option in _CONF and value is not None and value.partition("=")[0] == key
