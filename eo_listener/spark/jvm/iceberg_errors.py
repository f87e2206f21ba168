"""Turns a Java exception from Iceberg into an error that needs no further calls to Java."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from eo_listener.spark.jvm.calls import FAILURES, asking, thrown
from eo_listener.spark.jvm.redaction import NONE, Secrets, without_secrets


class ThrownError(Exception):
    """A Java exception: its text, its class, and the classes of its causes.

    `causes` are the texts of the causes. `text` and `causes` are without secrets.
    """

    def __init__(
        self,
        classes: tuple[str, ...],
        text: str,
        *,
        causes: tuple[str, ...] = (),
        secrets: Secrets = NONE,
    ) -> None:
        self.classes = classes
        self.text = secrets.hidden(text)
        self.causes = tuple(map(secrets.hidden, causes))
        self._texts = (text, *causes)  # with secrets: a password may be a word of a phrase
        super().__init__(self.text)

    def is_any(self, *names: str) -> bool:
        """Return True if the exception or one of its causes has a class with one of these names.

        `names` are names of classes without their packages.
        """
        return any(name.rpartition(".")[2] in names for name in self.classes)

    def says(self, *phrases: str) -> bool:
        """Return True if one of `phrases` is in the text, or in the text of a cause."""
        return any(phrase in text for text in self._texts for phrase in phrases)


@contextmanager
def java_errors() -> Iterator[None]:
    """Raise ThrownError if Java throws an exception in the block, JvmError if the JVM has ended."""
    try:
        yield
    except FAILURES as error:
        chain = thrown(error)
        if not chain:
            with asking("work on an Iceberg table"):
                raise
        secrets = Secrets.configured()
        classes = tuple(exception.classes[0] for exception in chain)
        text, *causes = (exception.message or exception.text for exception in chain)
        raise ThrownError(
            classes, text, causes=tuple(causes), secrets=secrets
        ) from without_secrets(error, secrets)
