"""Removes the secrets in the session's settings from a Java exception, so that it can be shown.

Java's texts go into tracebacks, and with tracebacks into Spark's log. They may contain secrets: the
driver of a catalog or file system may quote its URL or properties.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from pyspark import SparkContext

from eo_listener.spark.checkpoint.location import shown

_NAME: Final = (
    r"(?i)^(?!yarn\.|mapreduce\.|.*(provider|type|file|path|validity|fallback|use_ip)$)"
    r".*(password|passwd|passphrase|secret|token|credential|"
    r"(access|account|api|private|encryption)[.-]?key).*"
)
"""The names of secret settings, as a regular expression for both Python and Java.

It matches no setting that Hadoop has by default, since many texts contain the values of those
settings.
"""
_CONF: Final = "org.apache.spark.sql.internal.SQLConf"
_APPLICATION: Final = "spark.app.name"
_BETWEEN: Final = "\x01"
_SHORTEST: Final = 4  # characters; a shorter value is not a secret, and is part of many words
_NO_SECRETS: Final = ("true", "false", "none", "null")


class JavaThrownError(Exception):
    """A Java exception with its stack trace as Java prints it, without secrets.

    `java_exception` is the Java exception itself.
    """

    def __init__(self, text: str, java_exception: Any) -> None:
        super().__init__(text)
        self.java_exception = java_exception


@dataclass(frozen=True, slots=True, repr=False)
class Secrets:
    """The values of secret settings in the running session and its Hadoop configuration."""

    values: tuple[str, ...] = ()

    @classmethod
    def configured(cls) -> Secrets:
        """Return the secrets of this thread's session in the JVM, and of its application."""
        context = SparkContext._active_spark_context  # noqa: SLF001  # getOrCreate would start one
        if context is None:
            return cls()
        jvm: Any = context._jvm  # noqa: SLF001  # pyspark offers no public way to its JVM
        try:
            text = str(getattr(jvm, _CONF).get().getAllConfs().mkString(_BETWEEN))
            hadoop: Any = context._jsc.hadoopConfiguration()  # noqa: SLF001  # as above
            of_hadoop = dict(hadoop.getValByRegex(_NAME))
            pairs = [setting.partition(" -> ")[::2] for setting in text.split(_BETWEEN)]
            if not any(name == _APPLICATION for name, _ in pairs):  # not the settings of a session
                pairs += context.getConf().getAll()
            pairs += of_hadoop.items()
        except Exception:  # noqa: BLE001  # the caller is raising a more important error
            return cls()  # the JVM or the session has ended, or a setting cannot be read
        return cls.from_values(value for name, value in pairs if re.fullmatch(_NAME, name))

    @classmethod
    def from_values(cls, values: Any) -> Secrets:
        """Return `values` as secrets, both as they are and encoded for a URL.

        If a value has the form `id:text`, the part `text` is a secret too.
        """
        secrets: set[str] = set()
        for value in values:
            for text in (value, value.partition(":")[2]):
                if len(text) >= _SHORTEST and text.lower() not in _NO_SECRETS:
                    secrets |= {text, quote(text, safe="")}
        return cls(tuple(sorted(secrets, key=len, reverse=True)))

    def hidden(self, text: str) -> str:
        """Return `text` with `***` in place of secrets, and of texts that look like secrets."""
        for value in self.values:
            text = text.replace(value, "***")
        return shown(text)


NONE: Final = Secrets()


def without_secrets(error: Exception, secrets: Secrets | None = None) -> Exception:
    """Return a Java exception of py4j or pyspark in a form without secrets.

    The function returns other exceptions unchanged.
    """
    thrown = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if thrown is None:
        return error
    try:
        text = str(error)  # py4j asks Java for the stack trace
    except Exception:  # noqa: BLE001  # the JVM has ended
        text = type(error).__name__
    return JavaThrownError((secrets or Secrets.configured()).hidden(text), thrown)
