"""Java's `sasl.*` options in librdkafka's names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from eo_listener.client_config.jaas import OPTION, LoginModule
from eo_listener.client_config.kafka_options import PREFIX, OnlyJava, require_known
from eo_listener.model.errors import SettingsError

JAAS: Final = "sasl.jaas.config"
_MECHANISM: Final = "sasl.mechanism"
_SERVICE: Final = "sasl.kerberos.service.name"
_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_SUBJECT: Final = "sasl.oauthbearer.sub.claim.name"
_HANDLER: Final = "sasl.login.callback.handler.class"
_KNOWN: Final = frozenset({JAAS, _MECHANISM})

_SHADED: Final = "kafkashaded."  # as some platforms rename Kafka's own classes
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
# Both fetch a token with the client's id and secret, as librdkafka does by itself.
_OIDC: Final = frozenset(
    {
        f"{_SECURITY}oauthbearer.OAuthBearerLoginCallbackHandler",
        f"{_SECURITY}oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    }
)
_EXTENSION: Final = "extension_"
_EXTENSION_TEXT: Final = re.compile(r"[^,=\x00-\x1f]+")
# librdkafka puts both into a command that a shell runs.
_KEYTAB: Final = re.compile(r"/[A-Za-z0-9_./@+-]+")
_PRINCIPAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./@+-]*")


def module(options: Mapping[str, str]) -> LoginModule | None:
    """The login module, None where the options hold none. Raises SettingsError."""
    text = options.get(JAAS)
    return None if text is None else LoginModule.parse(text)


def require_https(options: Mapping[str, str]) -> None:
    """Raise SettingsError where a secret would go to, or come from, anything but https."""
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
            cause="the client's secret would be sent unencrypted, or a file read as the token",
            fix="Give a URL that begins with https://, without a user in it",
        )


def sasl(options: Mapping[str, str], *, gssapi: bool) -> dict[str, str]:
    """Translate. Raises OnlyJava, and SettingsError where there is nothing to translate to.

    `gssapi` says whether the librdkafka that is installed can do Kerberos.
    """
    mechanism = options.get(_MECHANISM, "GSSAPI").strip().upper()
    if mechanism not in _MECHANISMS:
        raise OnlyJava(f"librdkafka does not know this {PREFIX}{_MECHANISM}")
    login = module(options)
    if login is None:
        raise OnlyJava(f"there is no {OPTION}, so the login is set for the JVM as a whole")
    if mechanism == "GSSAPI" and not gssapi:
        raise OnlyJava("the librdkafka that is installed was built without Kerberos")
    return {_MECHANISM: mechanism, **_MECHANISMS[mechanism](mechanism, login, options)}


def _password(mechanism: str, login: LoginModule, options: Mapping[str, str]) -> dict[str, str]:
    require_known(options, "sasl.", _KNOWN)
    _require_module(login, PASSWORD_MODULES[mechanism])
    if login.options.get("tokenauth", "").lower() == "true":
        raise OnlyJava("librdkafka cannot log in with a delegation token")
    user, password = (login.options.get(name) for name in ("username", "password"))
    if not user or not password:
        raise SettingsError(
            f"{OPTION} gives no username and password",
            cause="its login module needs both",
            fix='write it as: <login module> required username="<name>" password="<password>";',
        )
    return {"sasl.username": user, "sasl.password": password}


def _oidc(_mechanism: str, login: LoginModule, options: Mapping[str, str]) -> dict[str, str]:
    require_known(options, "sasl.", _KNOWN | {_URL, _HANDLER, _SUBJECT})
    _require_module(login, _OAUTH)
    if options.get(_HANDLER, "").removeprefix(_SHADED) not in _OIDC or _URL not in options:
        raise OnlyJava(
            f"the token comes from what {PREFIX}{_HANDLER} names, or from Java's default"
        )
    given = {}
    extensions = []
    for name, text in login.options.items():
        if name.startswith(_EXTENSION):
            key = name.removeprefix(_EXTENSION)
            if not _EXTENSION_TEXT.fullmatch(key) or not _EXTENSION_TEXT.fullmatch(text):
                raise OnlyJava("librdkafka cannot write one of the token's extensions")
            extensions.append(f"{key}={text}")
        elif name in _CREDENTIALS:
            given[_CREDENTIALS[name]] = text
        else:
            raise OnlyJava("librdkafka has no equal for one of the login module's options")
    for name in ("clientId", "clientSecret"):
        if not given.get(_CREDENTIALS[name]):
            raise SettingsError(
                f"{OPTION} gives no {name}",
                cause="a token cannot be asked for without it",
                fix='write it as: <login module> required clientId="<id>" clientSecret="<secret>";',
            )
    if extensions:
        given["sasl.oauthbearer.extensions"] = ",".join(sorted(extensions))
    if options.get(_SUBJECT):
        given[_SUBJECT] = options[_SUBJECT]
    return {
        "sasl.oauthbearer.method": "oidc",
        _URL: options[_URL],
        **{name: text for name, text in given.items() if text},
    }


def _kerberos(_mechanism: str, login: LoginModule, options: Mapping[str, str]) -> dict[str, str]:
    require_known(options, "sasl.", _KNOWN | {_SERVICE})
    _require_module(login, _KERBEROS)
    keytab, principal = (login.options.get(name, "") for name in ("keyTab", "principal"))
    service = options.get(_SERVICE) or login.options.get("serviceName", "")
    if login.options.get("useKeyTab", "").lower() != "true":
        raise OnlyJava("the Kerberos login is not by a keytab")
    if not _KEYTAB.fullmatch(keytab) or not _PRINCIPAL.fullmatch(principal):
        raise OnlyJava("the keytab or the principal cannot be given to a shell's command")
    if not _PRINCIPAL.fullmatch(service):
        raise OnlyJava(f"the name of the service is not in {PREFIX}{_SERVICE}")
    return {_SERVICE: service, "sasl.kerberos.keytab": keytab, "sasl.kerberos.principal": principal}


def _require_module(login: LoginModule, name: str) -> None:
    if login.name.removeprefix(_SHADED) != name:
        raise OnlyJava(f"the login module in {OPTION} is not Kafka's own for this mechanism")


_CREDENTIALS: Final = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_MECHANISMS: Final[
    Mapping[str, Callable[[str, LoginModule, Mapping[str, str]], dict[str, str]]]
] = {**dict.fromkeys(PASSWORD_MODULES, _password), "OAUTHBEARER": _oidc, "GSSAPI": _kerberos}
