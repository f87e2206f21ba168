"""The findings of a preflight or of a sink's `check`, and their JSON format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum

from eo_listener.errors import EoListenerError


class Severity(Enum):
    """The severity of a finding. Only WARNING and PROBLEM need action."""

    FINE = "fine"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """The result of one check: `about` names the subject, `advice` is the fix, or "".

    A PROBLEM means that commits or batches fail, or that offsets will be missing. A WARNING means
    that this may happen. A NOTE reports a fact that could not be checked, or that is good to know.
    """

    level: Severity
    about: str
    what: str
    advice: str = ""

    @property
    def matters(self) -> bool:
        """True if somebody must act on the finding."""
        return self.level in (Severity.WARNING, Severity.PROBLEM)

    def document(self) -> dict[str, str]:
        """Return the finding as a JSON document."""
        return {**asdict(self), "level": self.level.value}

    @classmethod
    def parse(cls, document: Mapping[str, str]) -> CheckFinding:
        """Read a finding from its JSON document. Raises KeyError, TypeError and ValueError."""
        return cls(**{**document, "level": Severity(document["level"])})  # type: ignore[arg-type]  # the level is none of the texts


Findings = Iterator[CheckFinding]


def fine(about: str, what: str) -> CheckFinding:
    """Return a finding of the level FINE."""
    return CheckFinding(level=Severity.FINE, about=about, what=what)


def note(about: str, what: str, advice: str = "") -> CheckFinding:
    """Return a finding of the level NOTE."""
    return CheckFinding(level=Severity.NOTE, about=about, what=what, advice=advice)


def warning(about: str, what: str, advice: str) -> CheckFinding:
    """Return a finding of the level WARNING."""
    return CheckFinding(level=Severity.WARNING, about=about, what=what, advice=advice)


def problem(about: str, what: str, advice: str) -> CheckFinding:
    """Return a finding of the level PROBLEM."""
    return CheckFinding(level=Severity.PROBLEM, about=about, what=what, advice=advice)


def failed(about: str, error: EoListenerError) -> CheckFinding:
    """Return a finding of the level PROBLEM that reports `error` and its fix."""
    return problem(about, described(error), error.fix or "")


def checked(about: str, findings: Findings) -> Findings:
    """Yield `findings`; if an EoListenerError ends them, yield the error as a PROBLEM."""
    try:
        yield from findings
    except EoListenerError as error:
        yield failed(about, error)


def described(error: EoListenerError) -> str:
    """Return the problem of `error`, with its cause in brackets."""
    return f"{error.problem} ({error.cause})" if error.cause else error.problem


def to_act_on(findings: Iterable[CheckFinding]) -> tuple[CheckFinding, ...]:
    """Return the findings on which somebody must act."""
    return tuple(finding for finding in findings if finding.matters)
