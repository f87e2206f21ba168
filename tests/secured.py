"""A broker with a locked door of every kind, the keys to them, and ACLs behind."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # no __all__
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

from eo_listener.spark import java
from tests.broker import Broker, Listener
from tests.conftest import kafka_version

PLANTED = "planted-"  # begins every password, to be looked for where none may be
TRUST = PLANTED + "trust"
STORE = PLANTED + "store"
KEY = PLANTED + "key"
PASSWORDS = {"alice": PLANTED + "alice", "bob": PLANTED + 'b"o\\b', "carol": PLANTED + "carol"}

_SECURITY = "org.apache.kafka.common.security"
PLAIN_MODULE = f"{_SECURITY}.plain.PlainLoginModule"
SCRAM_MODULE = f"{_SECURITY}.scram.ScramLoginModule"
TOKEN_MODULE = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule"
TOKEN_HANDLER = f"{_SECURITY}.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
_PROGRAM = "JavaStores.java"
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_MAPPING = "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT"


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def log_lines() -> Iterator[list[str]]:
    """Every line of every level that eo_listener logs meanwhile, as it would be written."""
    handler, log = _Lines(), logging.getLogger("eo_listener")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield handler.lines
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


class Keys:
    """Certificates in every form that Java's clients take; the client's needs its chain."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        root = trustme.CA()
        between = root.create_child_ca()
        self.server = root.issue_cert("127.0.0.1", "localhost")
        elsewhere = root.issue_cert("elsewhere.example")
        self._client = between.issue_cert("dora", common_name="dora")
        self.authority = root.cert_pem.bytes().decode()
        self.server_key = _pkcs8(self.server, NoEncryption())
        self.server_chain = _chain(self.server)
        self.strange_key, self.strange_chain = _pkcs8(elsewhere, NoEncryption()), _chain(elsewhere)
        self.open_key = _pkcs8(self._client, NoEncryption())
        self.chain = _chain(self._client)
        self.authority_file = self._file("ca.pem", self.authority.encode())
        self.p12_file = self._file("dora.p12", self._p12())
        self.jks_file = str(folder / "dora.jks")
        self.trust_jks, self.trust_p12 = str(folder / "trust.jks"), str(folder / "trust.pkcs12")
        program = [str(java.find().executable), *_QUICK, str(Path(__file__).with_name(_PROGRAM))]
        subprocess.run(
            [*program, str(folder), TRUST, STORE, KEY], check=True, capture_output=True, timeout=60
        )
        self.key = (folder / "dora.key").read_text()
        self.pem_file = self._file("dora.pem", (self.key + self.chain).encode())

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no output may hold: lines out of the middle of the keys."""
        return tuple(text.splitlines()[2] for text in (self.key, self.open_key, self.server_key))

    def _file(self, name: str, content: bytes) -> str:
        file = self._folder / name
        file.write_bytes(content)
        return str(file)

    def _p12(self) -> bytes:
        key = load_pem_private_key(self.open_key.encode(), None)
        leaf, *others = (pem.bytes() for pem in self._client.cert_chain_pems)
        return pkcs12.serialize_key_and_certificates(
            b"dora",
            key,  # type: ignore[arg-type]  # one of many kinds, as trustme makes them
            load_pem_x509_certificate(leaf),
            [load_pem_x509_certificate(one) for one in others],
            BestAvailableEncryption(STORE.encode()),
        )


def _pkcs8(cert: trustme.LeafCert, sealed: KeySerializationEncryption) -> str:
    """Java reads no other kind."""
    key = load_pem_private_key(cert.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed).decode()


def _chain(cert: trustme.LeafCert) -> str:
    return "".join(pem.bytes().decode() for pem in cert.cert_chain_pems)


def jaas(module: str, user: str) -> str:
    """The login of a user, as a source has it; quoted as Java wants it."""
    return f'{module} required username="{user}" password="{_quoted(PASSWORDS[user])}";'


@dataclass(frozen=True)
class Secured:
    """The broker, its keys, and the ways in."""

    broker: Broker
    keys: Keys

    def way(self, listener: str, **options: str) -> dict[str, str]:
        """Options of a reader; `__` in a name stands for a dot."""
        servers = {"kafka.bootstrap.servers": self.broker.addresses(listener)}
        return servers | {f"kafka.{k.replace('__', '.')}": text for k, text in options.items()}

    def plain(self, user: str, module: str = PLAIN_MODULE) -> dict[str, str]:
        """By name and password, in the open."""
        return self.way(
            "PLAIN",
            security__protocol="SASL_PLAINTEXT",
            sasl__mechanism="PLAIN",
            sasl__jaas__config=jaas(module, user),
        )

    def as_bob(self) -> dict[str, str]:
        """By name and password, in the open, as librdkafka's properties."""
        return {
            "bootstrap.servers": self.broker.addresses("PLAIN"),
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "bob",
            "sasl.password": PASSWORDS["bob"],
        }

    def token(self, url: str, client: str, secret: str) -> dict[str, str]:
        """By a token from this address."""
        login = f'{TOKEN_MODULE} required clientId="{client}" clientSecret="{secret}";'
        return self.way(
            "TOKEN",
            security__protocol="SASL_SSL",
            ssl__truststore__type="PEM",
            ssl__truststore__location=self.keys.authority_file,
            sasl__mechanism="OAUTHBEARER",
            sasl__oauthbearer__token__endpoint__url=url,
            sasl__login__callback__handler__class=TOKEN_HANDLER,
            sasl__jaas__config=login,
        )

    def ways(self) -> Mapping[str, dict[str, str]]:
        """Every way in that needs nothing but its options."""
        keys = self.keys
        trust_pem = {"ssl__truststore__type": "PEM",
                     "ssl__truststore__location": keys.authority_file}  # fmt: skip
        trust_jks = {"ssl__truststore__location": keys.trust_jks,
                     "ssl__truststore__password": TRUST}  # fmt: skip
        trust_p12 = {"ssl__truststore__type": "PKCS12",
                     "ssl__truststore__location": keys.trust_p12,
                     "ssl__truststore__password": TRUST}  # fmt: skip
        text = keys.authority.replace("\n", " ")
        one_line = {"ssl__truststore__type": "PEM", "ssl__truststore__certificates": text}
        ssl = {"security__protocol": "SSL"}
        scram = {"security__protocol": "SASL_SSL",
                 "sasl__jaas__config": jaas(SCRAM_MODULE, "carol")}  # fmt: skip
        return {
            "tls-pem-file": self.way("TLS", **ssl, **trust_pem),
            "tls-pem-text": self.way("TLS", **ssl, **one_line),
            "tls-jks": self.way("TLS", **ssl, **trust_jks),
            "tls-pkcs12": self.way("TLS", **ssl, **trust_p12),
            "tls-unnamed": self.way(
                "STRANGE", **ssl, **trust_pem, ssl__endpoint__identification__algorithm=""
            ),
            "mutual-pem-file": self.way(
                "MUTUAL", **ssl, **trust_pem, ssl__keystore__type="PEM",
                ssl__keystore__location=keys.pem_file, ssl__key__password=KEY,
            ),
            "mutual-pem-text": self.way(
                "MUTUAL", **ssl, **one_line, ssl__keystore__type="PEM",
                ssl__keystore__key=keys.key, ssl__keystore__certificate__chain=keys.chain,
                ssl__key__password=KEY,
            ),
            "mutual-pkcs12": self.way(
                "MUTUAL", **ssl, **trust_jks, ssl__keystore__type="PKCS12",
                ssl__keystore__location=keys.p12_file, ssl__keystore__password=STORE,
            ),
            "mutual-jks": self.way(
                "MUTUAL", **ssl, **trust_p12, ssl__keystore__location=keys.jks_file,
                ssl__keystore__password=STORE, ssl__key__password=KEY,
            ),
            "plain": self.plain("alice"),
            "scram-256": self.way("SCRAM", **scram, **trust_jks, sasl__mechanism="SCRAM-SHA-256"),
            "scram-512": self.way("SCRAM", **scram, **trust_pem, sasl__mechanism="SCRAM-SHA-512"),
        }  # fmt: skip

    @property
    def admin(self) -> AdminClient:
        """A client that may do all, over the plain listener."""
        return AdminClient({"bootstrap.servers": self.broker.bootstrap_servers, "log_level": "0"})

    def allow(self, user: str, kind: str, name: str, operation: str) -> None:
        """Give a right; `*` for everything of the kind."""
        admin = self.admin
        binding = AclBinding(
            ResourceType[kind], name, ResourcePatternType.LITERAL, f"User:{user}", "*",
            AclOperation[operation], AclPermissionType.ALLOW,
        )  # fmt: skip
        for done in admin.create_acls([binding]).values():
            done.result(30)

    def enrol(self, user: str) -> None:
        """Make a SCRAM user; Kafka takes one mechanism of a user at a time."""
        admin = self.admin
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            wanted = UserScramCredentialUpsertion(
                user, ScramCredentialInfo(mechanism, 4096), PASSWORDS[user].encode()
            )
            for done in admin.alter_user_scram_credentials([wanted]).values():
                done.result(30)

    def prepare(self) -> None:
        """Enrol who needs it, and let all but bob read everything."""
        self.enrol("carol")
        for user in ("alice", "carol", "dora", "erin"):
            self.allow(user, "TOPIC", "*", "READ")
            self.allow(user, "GROUP", "*", "READ")


def secured_broker(keys: Keys) -> Broker:
    """A broker, not yet started: with listeners TLS, STRANGE, MUTUAL, PLAIN, SCRAM and TOKEN."""
    tls = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": keys.server_key,
        "ssl.keystore.certificate.chain": keys.server_chain,
    }
    strange = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": keys.strange_key,
        "ssl.keystore.certificate.chain": keys.strange_chain,
    }
    mutual = {
        **tls,
        "ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": keys.authority,
        "ssl.principal.mapping.rules": _MAPPING,
    }
    users = " ".join(f'user_{user}="{_quoted(PASSWORDS[user])}"' for user in ("alice", "bob"))
    plain = _logins(f"{PLAIN_MODULE} required {users};", "PLAIN")
    scram = {**tls, **_logins(f"{SCRAM_MODULE} required;", "SCRAM-SHA-256", "SCRAM-SHA-512")}
    token = {**tls, **_logins(f"{TOKEN_MODULE} required;", "OAUTHBEARER")}
    listeners = {
        "TLS": ("SSL", tls),
        "STRANGE": ("SSL", strange),
        "MUTUAL": ("SSL", mutual),
        "PLAIN": ("SASL_PLAINTEXT", plain),
        "SCRAM": ("SASL_SSL", scram),
        "TOKEN": ("SASL_SSL", token),
    }
    return Broker(
        version=kafka_version(),
        listeners=[
            Listener(name=name, security_protocol=protocol, properties=properties)
            for name, (protocol, properties) in listeners.items()
        ],
        properties={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
    )


def _logins(jaas_config: str, *mechanisms: str) -> dict[str, str]:
    each = {f"{name.lower()}.sasl.jaas.config": jaas_config for name in mechanisms}
    return {"sasl.enabled.mechanisms": ",".join(mechanisms), **each}


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
