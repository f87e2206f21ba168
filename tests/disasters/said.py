"""What a command has printed to a person, and what that person types of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_FINDING = re.compile(r"(?P<severity>fine|note|warning|problem)  (?P<what>.*)")
_DETAIL = re.compile(r"  (?P<name>cause|fix): (?P<text>.*)")
# A command ends where the line goes on with other words.
_COMMAND = re.compile(r"eo-listener .*?(?= \(with |; |, | and eo-listener |$)", re.MULTILINE)
_CHOICE = re.compile(r"; (?:or|if)\b")
_START = re.compile(r"starting_offsets\([^()]*\)")
_FUNCTION = re.compile(r"exactly_once\(\.\.\., ([^()]*)\)")
_SINK = re.compile(r'KafkaSink\(\.\.\., name="(\w+)"\)')
_EARLIEST = '"startingOffsets", "earliest"'


@dataclass(frozen=True)
class Choice:
    """One of the things that a fix offers, as somebody does it who reads nothing else."""

    text: str

    @property
    def commands(self) -> list[str]:
        """What is to be typed into a shell."""
        return _COMMAND.findall(self.text)

    def start(self, **names: Any) -> str | None:
        """The `startingOffsets` of the code that is to be typed, None where there is none."""
        found = _START.search(self.text)
        if found is None:
            return "earliest" if _EARLIEST in self.text else None
        offsets: str = eval(found[0], names)  # noqa: S307  # our own output, as a user types it
        return offsets

    @property
    def settings(self) -> dict[str, Any]:
        """What `exactly_once` is to be given beside the sink."""
        found: dict[str, Any] = {}
        for given in _FUNCTION.findall(self.text):
            found |= eval(f"dict({given})", {})  # noqa: S307  # as before
        return found

    @property
    def does_something(self) -> bool:
        """Whether there is anything to type."""
        return any(one.search(self.text) for one in (_COMMAND, _START, _FUNCTION)) or (
            _EARLIEST in self.text
        )


@dataclass
class Finding:
    """One that a person sees, with what is printed below it."""

    severity: str
    what: str
    cause: str = ""
    fix: str = ""

    @property
    def sink_name(self) -> str | None:
        """The new name of the sink, where the fix is to give it one."""
        found = _SINK.search(self.fix)
        return found and found[1]

    @property
    def choices(self) -> list[Choice]:
        """What it offers to type, the first choice first."""
        return [one for one in map(Choice, _CHOICE.split(self.fix)) if one.does_something]


class Verdict(NamedTuple):
    """Whether it is proved that nothing is lost or doubled, and what is counted all the same."""

    proved: bool
    counts: tuple[str, ...]


NOTHING = Verdict(proved=True, counts=())


@dataclass
class Said:
    """What `audit` has printed, with its exit status."""

    code: int
    text: str
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        for line in self.text.splitlines():
            finding, detail = _FINDING.fullmatch(line), _DETAIL.fullmatch(line)
            if finding is not None:
                self.findings.append(Finding(finding["severity"], finding["what"]))
            elif detail is not None:
                setattr(self.findings[-1], detail["name"], detail["text"])

    @property
    def verdict(self) -> Verdict:
        text = self.text.splitlines()[-1].removeprefix("verdict: ")
        return Verdict("nothing lost" in text, tuple(re.findall(r"\d+(?: \w+)?", text)))

    @property
    def to_act_on(self) -> list[Finding]:
        return [one for one in self.findings if one.severity in ("warning", "problem")]
