"""The tree of errors, and how each of them reads.

EoListenerError
├── SettingsError          what the user gave cannot be used            exit 2
│   └── TooLateError       right, but the JVM is already running
├── FormatError            a text from outside is not what it should be exit 3
└── UnavailableError       something this needs cannot be had           exit 3
    ├── JavaError          no Java, or one of the wrong version
    ├── DownloadError      an artifact could not be fetched or verified
    ├── BrokerError        the development broker did not start or stop
    ├── JvmError           Spark's JVM did not answer a question
    ├── StorageError       where a checkpoint lies could not be reached
    └── KafkaError         Kafka did not answer, or refused
"""

from __future__ import annotations


class EoListenerError(Exception):
    """Base of every error that eo_listener raises on purpose.

    `problem` says what happened, `cause` what most likely led to it, `fix` what to change
    or to type. `str()` joins those that are there into one line. None of them ever holds a
    secret.
    """

    exit_code = 3

    def __init__(self, problem: str, *, cause: str | None = None, fix: str | None = None) -> None:
        self.problem = problem
        self.cause = cause
        self.fix = fix
        super().__init__(problem, cause, fix)

    def __str__(self) -> str:
        return ". ".join(part.rstrip(".") for part in (self.problem, self.cause, self.fix) if part)


class SettingsError(EoListenerError):
    """What the user gave cannot be used as it is."""

    exit_code = 2


class TooLateError(SettingsError):
    """The setting is right, but the JVM that should read it is already running."""


class FormatError(EoListenerError):
    """A text that another program wrote is not in the form it should be in."""


class UnavailableError(EoListenerError):
    """Something that is needed cannot be had now."""


class JavaError(UnavailableError):
    """No Java was found, or one whose version cannot be used."""


class DownloadError(UnavailableError):
    """An artifact could not be fetched, or is not the one that was expected."""


class BrokerError(UnavailableError):
    """The development broker could not be started, found or stopped."""


class JvmError(UnavailableError):
    """Spark's JVM could not be asked, or did not answer in a form we know."""


class StorageError(UnavailableError):
    """The storage that a checkpoint lies on could not be listed or read."""


class KafkaError(UnavailableError):
    """Kafka did not answer in time, or refused the request.

    `code` is the name of Kafka's own error (`"GROUP_AUTHORIZATION_FAILED"`).
    """

    def __init__(
        self, problem: str, *, code: str, cause: str | None = None, fix: str | None = None
    ) -> None:
        self.code = code
        super().__init__(problem, cause=cause, fix=fix)
