"""What is made of a source's options is what librdkafka takes."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer, KafkaException

from eo_listener.client_config.cluster import translate
from eo_listener.kafka.group_stores import MODES, check, has_gssapi
from tests.client_config.test_translate import BY_TICKET, BY_TOKEN, source
from tests.secured import KEY, Keys, Secured


class StubBroker:
    """Stands for a broker where only its address is asked for."""

    def addresses(self, listener: str) -> str:
        return f"{listener.lower()}:9093"


@pytest.mark.parametrize("mode", MODES)
def test_every_way_is_accepted(keys: Keys, mode: str) -> None:
    """librdkafka accepts the settings of each way, and loads their keys and certificates."""
    ways = Secured(StubBroker(), keys).ways()  # type: ignore[arg-type]  # it has what is asked for
    assert len(ways) == 12
    for options in ways.values():
        check(translate(options).properties, mode)


def test_tokens_are_accepted() -> None:
    """OpenID Connect with scope, extensions and the claim of the subject."""
    options = {
        **BY_TOKEN,
        "sasl.oauthbearer.sub.claim.name": "azp",
        "sasl.jaas.config": BY_TOKEN["sasl.jaas.config"].replace(
            ";", ' scope="a b" extension_x="1";'
        ),
    }
    properties = translate(source(options)).properties
    assert {"sasl.oauthbearer.scope", "sasl.oauthbearer.extensions"} <= properties.keys()
    check(properties)


def test_stores_become_what_is_accepted(keys: Keys) -> None:
    """The PEM texts that Java makes of key stores are loaded, the chain of a certificate too."""
    options = Secured(StubBroker(), keys).ways()["mutual-jks"]  # type: ignore[arg-type]  # as above
    access = translate(options)
    trust, own = access.stores
    answers = {
        trust: {"v": 1, "certificates": keys.authority, "key": None},
        own: {"v": 1, "certificates": keys.chain, "key": keys.open_key},
    }
    properties = dict(access.properties)
    for store, answer in answers.items():
        properties |= store.properties(json.dumps(answer))
    assert properties["ssl.certificate.pem"].count("BEGIN") == 2
    assert KEY not in str(properties)
    check(properties)


def test_kerberos_is_known_by_asking() -> None:
    """`has_gssapi` returns what the installed librdkafka really supports."""
    properties = dict(translate(source(BY_TICKET), gssapi=True).properties)
    settings = {**properties, "group.id": "g", "log_level": "0", "sasl.kerberos.kinit.cmd": "true"}
    if has_gssapi():
        Consumer(settings).close()
    else:
        with pytest.raises(KafkaException, match="GSSAPI"):
            Consumer(settings)
