"""Translates Java's `sasl.*` options to librdkafka's, and parses `sasl.jaas.config`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from eo_listener.client_config.kafka_options import PREFIX, OnlyJava, require_known
from eo_listener.errors import SettingsError

JAAS: Final = "sasl.jaas.config"
_OPTION: Final = f"{PREFIX}{JAAS}"

_FORBIDDEN: Final = (
    "com.sun.security.auth.module.JndiLoginModule",
    "com.sun.security.auth.module.LdapLoginModule",
)
_FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})

# Matches tokens as Kafka's own parser, a java.io.StreamTokenizer, reads them. Text that Kafka would
# read as a number or as the rest of a comment (a bare path) does not match; Kafka rejects such text
# too.
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
    """The name of a login module's Java class, and its options, which hold secrets."""

    name: str
    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> LoginModule:
        """Parse the value of `sasl.jaas.config`.

        Raises SettingsError, which quotes nothing of the text, if Java could not read the text, if
        the text names several modules, or if a module loads code or secrets from elsewhere.
        """
        tokens = list(_tokens(text))
        name, flag = _leading_words(tokens)
        if name in _FORBIDDEN:
            raise SettingsError(
                f"{_OPTION} names a login module that is never used",
                cause=f"{name.rpartition('.')[2]} loads data or code from elsewhere",
                fix="use the login module of the SASL mechanism",
            )
        if flag.upper() not in _FLAGS:
            raise _unreadable("its second word must be required, requisite, sufficient or optional")
        options: dict[str, str] = {}
        rest = iter(tokens[2:])
        for kind, key in rest:
            if (kind, key) == ("sign", ";"):
                if next(rest, None) is not None:
                    raise _unreadable(
                        "text follows its semicolon: only one login module is allowed"
                    )
                return cls(name=name, options=MappingProxyType(options))
            equals, (of_value, value) = next(rest, None), next(rest, ("sign", ""))
            if kind == "sign" or equals != ("sign", "=") or of_value == "sign":
                raise _unreadable(f"option {len(options) + 1} of its login module has no value")
            options[key] = value
        raise _unreadable("it does not end with a semicolon")

    def text(self) -> str:
        """Return a text from which `parse` and Java read the same login module."""
        options = "".join(
            f' {name}="{value.translate(_ESCAPED)}"' for name, value in self.options.items()
        )
        return f"{self.name} required{options};"


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the value of each token in `text`, without quotes and escapes."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise _unreadable(
                f"character {at + 1} is not allowed: values with characters other than "
                "letters, digits and . _ - $ need double quotes"
            )
        at = match.end()
        if match.lastgroup == "quoted":
            yield "quoted", _ESCAPE.sub(_unescaped, match[0][1:-1])
        elif match.lastgroup != "space":
            yield match.lastgroup, match[0]


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    return chr(int(escape, 8)) if escape[0] in "01234567" else _LETTERS.get(escape, escape)


def _leading_words(tokens: list[tuple[str, str]]) -> tuple[str, str]:
    words = [value.strip() for kind, value in tokens[:2] if kind != "sign"]
    if len(words) < 2:
        raise _unreadable("it does not begin with a login module and `required`")
    return words[0], words[1]


def _unreadable(how: str) -> SettingsError:
    return SettingsError(
        f"{_OPTION} cannot be read",
        cause=how,
        fix='write it as: <login module> required <option>="<value>" ... ;',
    )


_MECHANISM: Final = "sasl.mechanism"
_SERVICE: Final = "sasl.kerberos.service.name"
_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_SUBJECT: Final = "sasl.oauthbearer.sub.claim.name"
_HANDLER: Final = "sasl.login.callback.handler.class"
_KNOWN: Final = frozenset({JAAS, _MECHANISM})

_SHADED: Final = "kafkashaded."  # the prefix that some platforms give Kafka's own classes
_SECURITY: Final = "org.apache.kafka.common.security."
_SCRAM: Final = f"{_SECURITY}scram.ScramLoginModule"
# The login module of each mechanism by which a user and a password log in.
PASSWORD_MODULES: Final = {
    "PLAIN": f"{_SECURITY}plain.PlainLoginModule",
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
}
_OAUTH: Final = f"{_SECURITY}oauthbearer.OAuthBearerLoginModule"
_KERBEROS: Final = "com.sun.security.auth.module.Krb5LoginModule"
# Both handlers fetch a token with the client's id and secret, as librdkafka itself does.
_OIDC: Final = frozenset(
    {
        f"{_SECURITY}oauthbearer.OAuthBearerLoginCallbackHandler",
        f"{_SECURITY}oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    }
)
_EXTENSION: Final = "extension_"
_EXTENSION_TEXT: Final = re.compile(r"[^,=\x00-\x1f]+")
# librdkafka inserts the keytab and the principal into a command that a shell runs.
_KEYTAB: Final = re.compile(r"/[A-Za-z0-9_./@+-]+")
_PRINCIPAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./@+-]*")


def login_module(options: Mapping[str, str]) -> LoginModule | None:
    """Return the login module, or None if the options do not name one. Raises SettingsError."""
    text = options.get(JAAS)
    return None if text is None else LoginModule.parse(text)


def require_https(options: Mapping[str, str]) -> None:
    """Raise SettingsError if the URL of the token endpoint is not an https URL."""
    url = options.get(_URL)
    if url is None:
        return
    try:
        parts = urlsplit(url)
        secure = parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        secure = False
    if not secure or any(char <= " " for char in url):
        raise SettingsError(
            f"the source option {PREFIX}{_URL} must be an https URL",
            cause="the client's secret would be sent unencrypted, or a file would be read as "
            "the token",
            fix="Give a URL that begins with https://, without a user in it",
        )


def sasl(options: Mapping[str, str], *, gssapi: bool) -> dict[str, str]:
    """Translate the `sasl.*` options. `gssapi` is True if the installed librdkafka has Kerberos.

    Raises OnlyJava if only Java's client supports the options, and SettingsError if no client
    supports them.
    """
    mechanism = options.get(_MECHANISM, "GSSAPI").strip().upper()
    if mechanism not in _MECHANISMS:
        raise OnlyJava(f"librdkafka does not support this {PREFIX}{_MECHANISM}")
    login = login_module(options)
    if login is None:
        raise OnlyJava(f"{_OPTION} is not set, so the JVM's own login configuration is used")
    if mechanism == "GSSAPI" and not gssapi:
        raise OnlyJava("the installed librdkafka was built without Kerberos")
    return {_MECHANISM: mechanism, **_MECHANISMS[mechanism](mechanism, login, options)}


def _password(mechanism: str, login: LoginModule, options: Mapping[str, str]) -> dict[str, str]:
    require_known(options, "sasl.", _KNOWN)
    _require_module(login, PASSWORD_MODULES[mechanism])
    if login.options.get("tokenauth", "").lower() == "true":
        raise OnlyJava("librdkafka cannot log in with a delegation token")
    user, password = (login.options.get(name) for name in ("username", "password"))
    if not user or not password:
        raise SettingsError(
            f"{_OPTION} has no username and password",
            cause="its login module needs both",
            fix='write it as: <login module> required username="<name>" password="<password>";',
        )
    return {"sasl.username": user, "sasl.password": password}


def _oidc(_mechanism: str, login: LoginModule, options: Mapping[str, str]) -> dict[str, str]:
    require_known(options, "sasl.", _KNOWN | {_URL, _HANDLER, _SUBJECT})
    _require_module(login, _OAUTH)
    if options.get(_HANDLER, "").removeprefix(_SHADED) not in _OIDC or _URL not in options:
        raise OnlyJava(
            f"the token comes from the class that {PREFIX}{_HANDLER} names, or from Java's default"
        )
    credentials = {}
    extensions = []
    for name, text in login.options.items():
        if name.startswith(_EXTENSION):
            key = name.removeprefix(_EXTENSION)
            if not _EXTENSION_TEXT.fullmatch(key) or not _EXTENSION_TEXT.fullmatch(text):
                raise OnlyJava("librdkafka cannot write one of the token's extensions")
            extensions.append(f"{key}={text}")
        elif name in _CREDENTIALS:
            credentials[_CREDENTIALS[name]] = text
        else:
            raise OnlyJava("librdkafka has no equivalent of one of the login module's options")
    for name in ("clientId", "clientSecret"):
        if not credentials.get(_CREDENTIALS[name]):
            raise SettingsError(
                f"{_OPTION} has no {name}",
                cause="a token cannot be requested without it",
                fix='write it as: <login module> required clientId="<id>" clientSecret="<secret>";',
            )
    if extensions:
        credentials["sasl.oauthbearer.extensions"] = ",".join(sorted(extensions))
    if options.get(_SUBJECT):
        credentials[_SUBJECT] = options[_SUBJECT]
    return {
        "sasl.oauthbearer.method": "oidc",
        _URL: options[_URL],
        **{name: text for name, text in credentials.items() if text},
    }


def _kerberos(_mechanism: str, login: LoginModule, options: Mapping[str, str]) -> dict[str, str]:
    require_known(options, "sasl.", _KNOWN | {_SERVICE})
    _require_module(login, _KERBEROS)
    keytab, principal = (login.options.get(name, "") for name in ("keyTab", "principal"))
    service = options.get(_SERVICE) or login.options.get("serviceName", "")
    if login.options.get("useKeyTab", "").lower() != "true":
        raise OnlyJava("the Kerberos login does not use a keytab")
    if not _KEYTAB.fullmatch(keytab) or not _PRINCIPAL.fullmatch(principal):
        raise OnlyJava("the keytab or the principal cannot be passed to a shell command")
    if not _PRINCIPAL.fullmatch(service):
        raise OnlyJava(f"{PREFIX}{_SERVICE} does not name the service")
    return {_SERVICE: service, "sasl.kerberos.keytab": keytab, "sasl.kerberos.principal": principal}


def _require_module(login: LoginModule, name: str) -> None:
    if login.name.removeprefix(_SHADED) != name:
        raise OnlyJava(f"the login module in {_OPTION} is not Kafka's own for this mechanism")


_CREDENTIALS: Final = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_MECHANISMS: Final[
    Mapping[str, Callable[[str, LoginModule, Mapping[str, str]], dict[str, str]]]
] = {**dict.fromkeys(PASSWORD_MODULES, _password), "OAUTHBEARER": _oidc, "GSSAPI": _kerberos}
