"""Reads and writes `PYSPARK_SUBMIT_ARGS`, the command line with which pyspark starts the JVM."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Final

from eo_listener.errors import SettingsError

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
