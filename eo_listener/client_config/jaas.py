"""The value of Java's `sasl.jaas.config`: one login module and its options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from eo_listener.model.errors import SettingsError

OPTION: Final = "kafka.sasl.jaas.config"

_FORBIDDEN: Final = (
    "com.sun.security.auth.module.JndiLoginModule",
    "com.sun.security.auth.module.LdapLoginModule",
)
_FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})

# As Kafka's own parser, a java.io.StreamTokenizer, takes the text apart. What that would read as
# a number or as the rest of a comment (a bare path) has no place here, and is an error there too.
_TOKEN: Final = re.compile(
    r"""
      (?P<space>   [\x00-\x20]+ | //[^\r\n]* | /\*.*?\*/ )
    | (?P<word>    [A-Za-z_$\xa0-\uffff\U00010000-\U0010ffff]
                   [A-Za-z0-9._$\xa0-\uffff\U00010000-\U0010ffff-]* )
    | (?P<quoted>  "(?:[^"\\\r\n]|\\[^\r\n])*" | '(?:[^'\\\r\n]|\\[^\r\n])*' )
    | (?P<sign>    [=;] )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)")
_ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"})
_LETTERS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """A login module, by the name of its Java class, and its options, which hold secrets."""

    name: str
    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> LoginModule:
        """Read the whole of a `sasl.jaas.config`.

        Raises SettingsError, which quotes nothing of it, for what Java would not read either, for
        several modules, and for modules that load code or secrets from elsewhere.
        """
        tokens = list(_tokens(text))
        name, flag = _leading_words(tokens)
        if name in _FORBIDDEN:
            raise SettingsError(
                f"{OPTION} names a login module that is never used",
                cause=f"{name.rpartition('.')[2]} fetches what it runs on from elsewhere",
                fix="use the login module of the SASL mechanism",
            )
        if flag.upper() not in _FLAGS:
            raise _unreadable("its second word is not required, requisite, sufficient or optional")
        options: dict[str, str] = {}
        rest = iter(tokens[2:])
        for kind, key in rest:
            if (kind, key) == ("sign", ";"):
                if next(rest, None) is not None:
                    raise _unreadable("more follows its semicolon: only one login module may stand")
                return cls(name=name, options=MappingProxyType(options))
            equals, (of_value, value) = next(rest, None), next(rest, ("sign", ""))
            if kind == "sign" or equals != ("sign", "=") or of_value == "sign":
                raise _unreadable(f"option {len(options) + 1} of its login module has no value")
            options[key] = value
        raise _unreadable("it does not end with a semicolon")

    def text(self) -> str:
        """Write it so that `parse`, and Java, read the same."""
        given = "".join(
            f' {name}="{value.translate(_ESCAPED)}"' for name, value in self.options.items()
        )
        return f"{self.name} required{given};"


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Kinds and values, quotes and escapes taken away."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise _unreadable(
                f"character {at + 1} stands where none of its kind may: values with anything but "
                "letters, digits and . _ - $ need double quotes"
            )
        at = match.end()
        if match.lastgroup == "quoted":
            yield "quoted", _ESCAPE.sub(_unescaped, match[0][1:-1])
        elif match.lastgroup != "space":
            yield match.lastgroup, match[0]


def _unescaped(match: re.Match[str]) -> str:
    what = match[1]
    return chr(int(what, 8)) if what[0] in "01234567" else _LETTERS.get(what, what)


def _leading_words(tokens: list[tuple[str, str]]) -> tuple[str, str]:
    words = [value.strip() for kind, value in tokens[:2] if kind != "sign"]
    if len(words) < 2:
        raise _unreadable("it does not begin with a login module and `required`")
    return words[0], words[1]


def _unreadable(how: str) -> SettingsError:
    return SettingsError(
        f"{OPTION} cannot be read",
        cause=how,
        fix='write it as: <login module> required <option>="<value>" ... ;',
    )
