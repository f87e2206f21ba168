"""Java's client options, by an allow-list, in librdkafka's names: each way in, each refusal."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as some

from eo_listener.client_config.cluster import ClientAccess, principal, translate
from eo_listener.client_config.tls import KeyStore
from eo_listener.errors import SettingsError

KAFKA = "org.apache.kafka.common.security"
SECRET = "hunter2hunter2"  # noqa: S105  # planted, to be looked for
BODY = "QUJD" * 40
LINES = (BODY[:64], BODY[64:128], BODY[128:])
CERTIFICATE = "\n".join(("-----BEGIN CERTIFICATE-----", *LINES, "-----END CERTIFICATE-----", ""))
KEY = CERTIFICATE.replace("CERTIFICATE", "PRIVATE KEY")
SEALED = CERTIFICATE.replace("CERTIFICATE", "ENCRYPTED PRIVATE KEY")

USER = f'required username="alice" password="{SECRET}";'
PLAIN = f"{KAFKA}.plain.PlainLoginModule {USER}"
SCRAM = f"{KAFKA}.scram.ScramLoginModule {USER}"
OAUTH = f"{KAFKA}.oauthbearer.OAuthBearerLoginModule required "
CLIENT = f'clientId="me" clientSecret="{SECRET}"'
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required "
KEYTAB = 'useKeyTab=true keyTab="/etc/me.keytab" principal="me/host@REALM";'
HANDLER = f"{KAFKA}.oauthbearer.secured.OAuthBearerLoginCallbackHandler"

SSL = {"security.protocol": "SSL"}
OVER_SSL = {"security.protocol": "SASL_SSL"}
BY_PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
BY_TOKEN = {
    **OVER_SSL,
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": f"{OAUTH}{CLIENT};",
    "sasl.login.callback.handler.class": HANDLER,
    "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
}
BY_TICKET = {
    **OVER_SSL,
    "sasl.kerberos.service.name": "kafka",
    "sasl.jaas.config": f"{KERBEROS}{KEYTAB}",
}


def source(options: Mapping[str, str]) -> dict[str, str]:
    """The options as a reader holds them, among its others."""
    return {
        "subscribe": "t",
        "failondataloss": "false",
        "kafka.bootstrap.servers": "k:9092",
        "kafka.consumer.commit.groupid": "g",
        "kafka.max.poll.records": "500",
        "kafka.key.deserializer": "x",
        "kafka.metric.reporters": "x",
        **{f"kafka.{name}": text for name, text in options.items()},
    }


CHECKED = {"ssl.endpoint.identification.algorithm": "https"}


@pytest.mark.parametrize(
    ("options", "properties"),
    [
        ({}, {}),
        ({"security.protocol": "PLAINTEXT", "ssl.truststore.location": "/t.jks"}, {}),
        ({"security.protocol": " plaintext ", "sasl.jaas.config": "rubbish"}, {}),
        (SSL, {"security.protocol": "ssl", **CHECKED}),
        ({"security.protocol": "ssl"}, {"security.protocol": "ssl", **CHECKED}),
        ({**SSL, "ssl.endpoint.identification.algorithm": ""},
         {"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "none"}),
        ({**SSL, "ssl.endpoint.identification.algorithm": "HTTPS"},
         {"security.protocol": "ssl", **CHECKED}),
        ({**SSL, "ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
         {"security.protocol": "ssl", "ssl.ca.location": "/ca.pem", **CHECKED}),
        ({**SSL, "ssl.truststore.type": "PEM", "ssl.truststore.certificates": CERTIFICATE * 2},
         {"security.protocol": "ssl", "ssl.ca.pem": CERTIFICATE * 2, **CHECKED}),
        ({**SSL, "ssl.keystore.type": "PEM", "ssl.keystore.location": "/me.pem",
          "ssl.key.password": SECRET},
         {"security.protocol": "ssl", "ssl.certificate.location": "/me.pem",
          "ssl.key.location": "/me.pem", "ssl.key.password": SECRET, **CHECKED}),
        ({**SSL, "ssl.keystore.type": "pem", "ssl.keystore.key": SEALED,
          "ssl.keystore.certificate.chain": CERTIFICATE, "ssl.key.password": SECRET},
         {"security.protocol": "ssl", "ssl.certificate.pem": CERTIFICATE,
          "ssl.key.pem": SEALED, "ssl.key.password": SECRET, **CHECKED}),
        ({**SSL, "ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/me.p12",
          "ssl.keystore.password": SECRET, "ssl.key.password": SECRET},
         {"security.protocol": "ssl", "ssl.keystore.location": "/me.p12",
          "ssl.keystore.password": SECRET, **CHECKED}),
        ({**BY_PLAIN, "sasl.jaas.config": PLAIN},
         {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN",
          "sasl.username": "alice", "sasl.password": SECRET}),
        ({**BY_PLAIN, "sasl.jaas.config": f"kafkashaded.{PLAIN}"},
         {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN",
          "sasl.username": "alice", "sasl.password": SECRET}),
        ({**OVER_SSL, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": SCRAM},
         {"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-256",
          "sasl.username": "alice", "sasl.password": SECRET, **CHECKED}),
        ({**OVER_SSL, "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": SCRAM,
          "sasl.login.refresh.window.factor": "0.5", "sasl.kerberos.kinit.cmd": "/bin/x"},
         {"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512",
          "sasl.username": "alice", "sasl.password": SECRET, **CHECKED}),
        (BY_TOKEN,
         {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER",
          "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "me",
          "sasl.oauthbearer.client.secret": SECRET,
          "sasl.oauthbearer.token.endpoint.url": "https://id.example/token", **CHECKED}),
        ({**BY_TOKEN, "sasl.oauthbearer.sub.claim.name": "azp",
          "sasl.oauthbearer.scope.claim.name": "scp",
          "sasl.jaas.config": f'{OAUTH}{CLIENT} scope="a b" extension_y="2" extension_x="1";'},
         {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER",
          "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "me",
          "sasl.oauthbearer.client.secret": SECRET, "sasl.oauthbearer.scope": "a b",
          "sasl.oauthbearer.extensions": "x=1,y=2", "sasl.oauthbearer.sub.claim.name": "azp",
          "sasl.oauthbearer.token.endpoint.url": "https://id.example/token", **CHECKED}),
        (BY_TICKET,
         {"security.protocol": "sasl_ssl", "sasl.mechanism": "GSSAPI",
          "sasl.kerberos.service.name": "kafka", "sasl.kerberos.keytab": "/etc/me.keytab",
          "sasl.kerberos.principal": "me/host@REALM", **CHECKED}),
        ({**SSL, "client.dns.lookup": "resolve_canonical_bootstrap_servers_only"},
         {"security.protocol": "ssl", **CHECKED,
          "client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}),
        ({"client.dns.lookup": "default"}, {}),
    ],
)  # fmt: skip  # one case a line
def test_properties_of_librdkafka(options: dict[str, str], properties: dict[str, str]) -> None:
    """Each way into a cluster has its properties, and nothing else goes along."""
    assert translate(source(options), gssapi=True) == ClientAccess(properties=properties)


@pytest.mark.parametrize("kind", ["JKS", "jks", "PKCS12", None])
def test_stores_that_only_java_reads(kind: str | None) -> None:
    """A truststore is left to Java, and so is a keystore of its own kind, which is the default."""
    options = {
        **SSL,
        "ssl.truststore.location": "/trust",
        "ssl.truststore.password": SECRET,
        "ssl.keystore.location": "/own",
        "ssl.keystore.password": SECRET,
        "ssl.key.password": "inner",
    }
    if kind is not None:
        options |= {"ssl.truststore.type": kind, "ssl.keystore.type": kind}
    access = translate(source(options))
    spelt = (kind or "JKS").upper()
    trust = KeyStore(use="trust", location="/trust", type=spelt, password=SECRET)
    if kind == "PKCS12":
        assert access.stores == (trust,)
        assert access.properties["ssl.keystore.location"] == "/own"
        return
    own = KeyStore(
        use="key", location="/own", type=spelt, password=SECRET, key_password="inner"  # noqa: S106
    )  # fmt: skip
    assert access.stores == (trust, own)
    assert dict(access.properties) == {"security.protocol": "ssl", **CHECKED}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({**SSL, "ssl.engine.factory.class": "x.Y"}, "kafka.ssl.engine.factory.class"),
        ({**SSL, "ssl.cipher.suites": "TLS_X"}, "kafka.ssl.cipher.suites"),
        ({**SSL, "ssl.enabled.protocols": "TLSv1.3"}, "kafka.ssl.enabled.protocols"),
        ({**SSL, "ssl.protocol": "TLSv1.3"}, "kafka.ssl.protocol"),
        ({**SSL, "ssl.provider": "x"}, "kafka.ssl.provider"),
        ({**SSL, "ssl.nobody.knows": "x"}, "kafka.ssl.nobody.knows"),
        ({**SSL, "ssl.truststore.type": "BCFKS", "ssl.truststore.location": "/t"},
         "kafka.ssl.truststore.type"),
        ({**SSL, "ssl.keystore.type": "PKCS11", "ssl.keystore.location": "/t"},
         "kafka.ssl.keystore.type"),
        ({**SSL, "ssl.endpoint.identification.algorithm": "LDAPS"}, "endpoint"),
        ({**SSL, "security.providers": "x.Y"}, "kafka.security.providers"),
        ({"config.providers": "vault", "config.providers.vault.class": "x.Y",
          "security.protocol": "${vault:protocol}", "sasl.jaas.config": "${vault:jaas}"},
         "kafka.config.providers"),
        ({**BY_PLAIN, "sasl.jaas.config": PLAIN, "sasl.client.callback.handler.class": "x"},
         "kafka.sasl.client.callback.handler.class"),
        ({**BY_PLAIN, "sasl.jaas.config": PLAIN, "sasl.login.class": "x"},
         "kafka.sasl.login.class"),
        ({**BY_PLAIN, "sasl.jaas.config": PLAIN, "sasl.nobody.knows": "x"},
         "kafka.sasl.nobody.knows"),
        (BY_PLAIN, "kafka.sasl.jaas.config"),
        ({"security.protocol": "SASL_SSL"}, "kafka.sasl.jaas.config"),
        ({**BY_PLAIN, "sasl.jaas.config": f"my.own.Module {USER}"}, "not Kafka's own"),
        ({**BY_PLAIN, "sasl.jaas.config": SCRAM}, "not Kafka's own"),
        ({**OVER_SSL, "sasl.mechanism": "SCRAM-SHA-512",
          "sasl.jaas.config": SCRAM.replace(";", ' tokenauth="true";')}, "delegation token"),
        ({**OVER_SSL, "sasl.mechanism": "AWS_MSK_IAM",
          "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
          "sasl.client.callback.handler.class": "x"}, "kafka.sasl.mechanism"),
        ({**BY_TOKEN, "sasl.login.callback.handler.class": "x.Y"}, "callback.handler.class"),
        ({k: v for k, v in BY_TOKEN.items() if "handler" not in k}, "Java's default"),
        ({k: v for k, v in BY_TOKEN.items() if "url" not in k}, "callback.handler.class"),
        ({**BY_TOKEN, "sasl.oauthbearer.header.urlencode": "true"}, "header.urlencode"),
        ({**BY_TOKEN, "sasl.jaas.config": f'{OAUTH}{CLIENT} ssl.protocol="x";'},
         "login module"),
        ({**BY_TOKEN, "sasl.jaas.config": f'{OAUTH}{CLIENT} extension_a="1,b=2";'}, "extensions"),
        ({**BY_TOKEN, "sasl.jaas.config": f"x.Login required {CLIENT};"}, "not Kafka's own"),
        ({**BY_TICKET, "sasl.jaas.config": f"{KERBEROS}useTicketCache=true;"}, "keytab"),
        ({**BY_TICKET, "sasl.jaas.config": f"x.Login required {KEYTAB}"}, "not Kafka's own"),
        ({**BY_TICKET, "sasl.jaas.config": KERBEROS + KEYTAB.replace("/etc/", "/$(id)/")}, "shell"),
        ({**BY_TICKET, "sasl.jaas.config": KERBEROS + KEYTAB.replace("me/host", "-me;x")}, "shell"),
        ({**BY_TICKET, "sasl.kerberos.service.name": "`id`"}, "service"),
    ],
)  # fmt: skip  # one case a line
def test_what_only_java_can_do(options: dict[str, str], why: str) -> None:
    """What librdkafka has no word for goes to Java's client, in Java's words, with the reason."""
    access = translate(source(options), gssapi=True)
    assert access.client == "java"
    assert why in (access.java_reason or "")
    assert access.properties == options
    assert access.stores == ()
    assert SECRET not in repr(access)


@pytest.mark.parametrize(
    ("options", "own", "client"),
    [
        ({}, [], "java"),
        ({"ssl.truststore.location": "/t"}, ["bootstrap.servers"], "java"),
        ({"security.protocol": "PLAINTEXT"}, [], "librdkafka"),
        ({**BY_PLAIN, "sasl.jaas.config": PLAIN}, [], "librdkafka"),
        ({"sasl.jaas.config": PLAIN}, [], "librdkafka"),
        ({}, ["security.protocol"], "librdkafka"),
        ({}, ["sasl.username"], "librdkafka"),
    ],
)
def test_delegation_tokens(options: dict[str, str], own: list[str], client: str) -> None:
    """Where Spark has tokens, a source that says nothing of security may be one that needs them."""
    assert translate(source(options), own=own, tokens=True).client == client


def test_what_reaches_javas_client() -> None:
    """Neither shell commands nor what is not of security; a ticket if librdkafka cannot do it."""
    options = {**BY_PLAIN, "sasl.kerberos.kinit.cmd": "touch /tmp/x", "interceptor.classes": "x"}
    assert translate(source(options)).properties == BY_PLAIN
    access = translate(source(BY_TICKET), gssapi=False)
    assert (access.client, access.properties) == ("java", BY_TICKET)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"security.protocol": SECRET}, "name a security protocol"),
        ({"plugin.library.paths": SECRET}, "kafka.plugin.library.paths is never used"),
        ({**SSL, "ssl.engine.location": SECRET}, "kafka.ssl.engine.location is never used"),
        ({**SSL, "ssl.engine.id": SECRET}, "kafka.ssl.engine.id is never used"),
        ({**SSL, "ssl.providers": SECRET}, "kafka.ssl.providers is never used"),
        ({**BY_PLAIN, "config.providers": "x", "sasl.jaas.config":
          f"com.sun.security.auth.module.JndiLoginModule {USER}"}, "never used"),
        ({**SSL, "ssl.truststore.password": f"\0{SECRET}"}, "truststore.password"),
        ({**SSL, "ssl.truststore.certificates": SECRET}, "certificates holds no readable PEM"),
        ({**SSL, "ssl.truststore.certificates": KEY}, "certificates holds no readable PEM"),
        ({**SSL, "ssl.keystore.key": SECRET, "ssl.keystore.certificate.chain": CERTIFICATE},
         "keystore.key holds no readable PEM"),
        ({**SSL, "ssl.keystore.key": KEY.replace("QUJD", "\u00e4"),
          "ssl.keystore.certificate.chain": CERTIFICATE}, "keystore.key holds no readable PEM"),
        ({**SSL, "ssl.keystore.key": KEY}, "half of a client's key"),
        ({**SSL, "ssl.keystore.certificate.chain": CERTIFICATE}, "half of a client's key"),
        ({**BY_PLAIN, "sasl.jaas.config": SECRET}, "sasl.jaas.config cannot be read"),
        ({**BY_PLAIN, "sasl.jaas.config": PLAIN * 2}, "sasl.jaas.config cannot be read"),
        ({**BY_PLAIN, "sasl.jaas.config": PLAIN.replace("username", "user")}, "no username"),
        ({**BY_PLAIN, "sasl.jaas.config": PLAIN.replace(SECRET, "")}, "no username and password"),
        ({**BY_PLAIN, "sasl.client.callback.handler.class": "x",
          "sasl.jaas.config": f"com.sun.security.auth.module.JndiLoginModule {USER}"},
         "never used"),
        ({**BY_TOKEN, "sasl.jaas.config": f'{OAUTH}clientId="{SECRET}";'}, "no clientSecret"),
        *(
            ({**BY_TOKEN, "sasl.oauthbearer.token.endpoint.url": url}, "must be an https URL")
            for url in (f"http://{SECRET}/", f"file:///{SECRET}", f"https://u:{SECRET}@x/",
                        f"ftp://{SECRET}", SECRET, "", "https://", f"https://a\n{SECRET}",
                        f"https://id.example/a {SECRET}", "https://id.example/\x1f",
                        f"https://[{SECRET}")
        ),
        ({**BY_TOKEN, "sasl.oauthbearer.token.endpoint.url": "http://x",
          "sasl.login.callback.handler.class": "x.Y"}, "must be an https URL"),
    ],
)  # fmt: skip  # one case a line
def test_what_is_refused(options: dict[str, str], problem: str) -> None:
    """What is dangerous, or cannot be translated at all, has one reason, and quotes no value."""
    with pytest.raises(SettingsError, match=problem) as caught:
        translate(source(options), gssapi=True)
    assert caught.value.cause
    assert caught.value.fix
    assert SECRET not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize(
    ("own", "gone"),
    [
        ("ssl.ca.location", ["ssl.ca.pem"]),
        ("ssl.ca.pem", ["ssl.ca.pem"]),
        ("ssl.key.pem", ["ssl.certificate.pem", "ssl.key.pem", "ssl.key.password"]),
        ("ssl.keystore.location", ["ssl.certificate.pem", "ssl.key.pem", "ssl.key.password"]),
        ("sasl.username", ["sasl.mechanism", "sasl.username", "sasl.password"]),
        ("ssl.endpoint.identification.algorithm", []),
        ("client.id", []),
    ],
)
def test_what_the_user_gives_is_not_translated(own: str, gone: list[str]) -> None:
    """Nothing that means the same is put beside a property; of a protocol nothing is inherited."""
    odd = {"security.protocol": "rubbish", "sasl.jaas.config": "rubbish"}
    assert translate(source(odd), own=["security.protocol"]) == ClientAccess(properties={})
    options = {
        **OVER_SSL,
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": PLAIN,
        "ssl.truststore.certificates": CERTIFICATE,
        "ssl.keystore.key": KEY,
        "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.key.password": SECRET,
    }
    full = dict(translate(source(options)).properties)
    left = dict(translate(source(options), own=[own]).properties)
    assert len(full) == 9
    assert left == {name: text for name, text in full.items() if name not in gone}


def test_settings_of_two_clients_are_not_mixed() -> None:
    """Where Java's client is needed, librdkafka's properties would go unheeded: that is said."""
    options = {**OVER_SSL, "ssl.protocol": "TLSv1.3"}
    with pytest.raises(SettingsError, match="cannot be merged") as caught:
        translate(source(options), own=["sasl.password"])
    assert "kafka.ssl.protocol" in str(caught.value)
    assert translate(source(options), own=["client.id", "bootstrap.servers"]).client == "java"


@pytest.mark.parametrize(
    "text",
    [
        CERTIFICATE.replace("\n", " "),
        CERTIFICATE.replace("\n", "\r\n"),
        CERTIFICATE.replace("\n", "\n\n"),
        f"comment\n{KEY}\n{CERTIFICATE}junk",
    ],
)
def test_pem_in_any_white_space(text: str) -> None:
    """A PEM text on one line, as Java takes it, is given the lines that OpenSSL wants."""
    access = translate(source({**SSL, "ssl.truststore.certificates": text}))
    assert access.properties["ssl.ca.pem"] == CERTIFICATE


def test_the_headers_of_an_older_key_keep_their_lines() -> None:
    """A key sealed the older way names its cipher in lines before the rest."""
    body = f"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n{BODY[:64]}"
    old = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\n"
    own = {"ssl.keystore.key": old, "ssl.keystore.certificate.chain": CERTIFICATE}
    assert translate(source({**SSL, **own})).properties["ssl.key.pem"] == old


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "User:ANONYMOUS"),
        (SSL, "User:ANONYMOUS"),
        ({**BY_PLAIN, "sasl.jaas.config": PLAIN}, "User:alice"),
        ({**SSL, "ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/x"}, None),
        ({**SSL, "ssl.keystore.type": "PEM", "ssl.keystore.location": "/x"}, None),
        ({**SSL, "ssl.keystore.location": "/x"}, None),
        (BY_TOKEN, None),
        (BY_TICKET, None),
    ],
)
def test_how_acls_name_the_client(options: dict[str, str], expected: str | None) -> None:
    """By its user name, as anonymous, or not from here."""
    access = translate(source(options), gssapi=True)
    assert principal(access.properties, access.stores) == expected


NAMES = some.sampled_from(
    sorted(
        {f"kafka.{name}" for options in (BY_TOKEN, BY_TICKET, BY_PLAIN) for name in options}
        | {f"kafka.ssl.{end}" for end in ("truststore.certificates", "truststore.type",
           "truststore.location", "keystore.key", "keystore.certificate.chain", "key.password",
           "keystore.location", "endpoint.identification.algorithm")}
    )
)  # fmt: skip
TEXTS = some.text(max_size=60) | some.sampled_from(
    [*BY_TOKEN.values(), *BY_TICKET.values(), PLAIN, SCRAM, CERTIFICATE, KEY, "PLAIN", "PEM", "JKS"]
)


@given(some.dictionaries(NAMES, TEXTS), some.booleans())
def test_any_options_are_translated_or_refused(options: dict[str, str], gssapi: bool) -> None:
    """No options at all raise anything but the one error, and none shows a value."""
    try:
        access = translate(options, gssapi=gssapi)
    except SettingsError as error:
        shown = repr(error)
    else:
        assert not any("\0" in text for text in access.properties.values())
        shown = repr(access)
    assert SECRET not in shown


def test_a_login_that_java_fills_in_is_not_read() -> None:
    """Only where a config provider puts values in: any other is read, and may be refused."""
    base = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
    providers = {"kafka.config.providers": "file"}
    filled = {"kafka.sasl.jaas.config": "${file:/x:login}"}
    assert translate({**base, **providers, **filled}).client == "java"
    wrong = {"kafka.sasl.jaas.config": "nothing"}
    for options in ({**base, **filled}, {**base, **providers, **wrong}, {**base, **wrong}):
        with pytest.raises(SettingsError, match=r"sasl\.jaas\.config cannot be read"):
            translate(options)


def test_a_store_of_a_key_without_a_key() -> None:
    """It is refused by its location, whatever the JVM answered; a store shows no password."""
    store = KeyStore(use="key", location="/k.jks", type="JKS", password=SECRET, key_password=SECRET)
    assert SECRET not in repr(store)
    assert SECRET in store.argument()
    chain = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
    with pytest.raises(SettingsError, match=r"/k\.jks"):
        store.properties(json.dumps({"v": 1, "certificates": chain, "key": None}))
