"""The settings of a node, and the file that holds them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from eo_listener.model.errors import SettingsError
from eo_listener.spark import java
from tests.broker import Listener
from tests.broker.node_properties import (
    OURS,
    node_properties,
    parse_pair,
    require_settable,
)
from tests.broker.storage import NodeFolder

PEM = "-----BEGIN KEY-----\nabc\\def\n-----END KEY-----\n"
READER = """\
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
public class Read {
    public static void main(String[] names) throws Exception {
        Properties read = new Properties();
        try (var input = Files.newInputStream(Path.of(names[0]))) { read.load(input); }
        StringBuilder text = new StringBuilder();
        read.forEach((name, value) -> text.append(name).append("\\0").append(value).append("\\0"));
        System.out.write(text.toString().getBytes(StandardCharsets.UTF_8));
    }
}
"""


def settings(
    nodes: int = 1, *listeners: Listener, wanted: dict[str, str] | None = None
) -> dict[str, str]:
    names = ["PLAINTEXT", "CONTROLLER", *(listener.name for listener in listeners)]
    ports = {
        node: {name: 1000 * node + at for at, name in enumerate(names)}
        for node in range(1, nodes + 1)
    }
    return node_properties(
        node=nodes, ports=ports, listeners=listeners, folder=Path("here"), wanted=wanted or {}
    )


def test_java_reads_what_was_written(tmp_path: Path) -> None:
    """Every text survives, in a name as in a value."""
    odd = [
        "",
        "plain",
        " led by a space",
        "a=b:c#d!e",
        "C:\\temp\\new",
        PEM,
        "tab\there",
        "f\u00fcr",
    ]
    odd += ["\U0001f6e9", "\\", "ends so \\", "#no note", "\r\f", "".join(map(chr, range(1, 128)))]
    written = {f"name{value}": value for value in odd}
    folder = NodeFolder(data=tmp_path, node=1)
    folder.prepare(written, formatted=True)
    (tmp_path / "Read.java").write_text(READER)
    java_program = [str(java.find().executable), str(tmp_path / "Read.java")]
    answer = subprocess.run(
        [*java_program, str(folder.settings)],
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert dict(zip(*[iter(answer.stdout.decode().split("\0")[:-1])] * 2, strict=True)) == written


@pytest.mark.parametrize(
    ("nodes", "copies", "safe"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_copies_follow_the_number_of_nodes(nodes: int, copies: str, safe: str) -> None:
    """Internal topics have min(3, n) copies, and every node of two or three may stop alone."""
    got = settings(nodes)
    for name in ("default", "offsets.topic", "transaction.state.log"):
        assert got[f"{name}.replication.factor"] == copies
    assert got["transaction.state.log.min.isr"] == got["min.insync.replicas"] == safe
    assert got["controller.quorum.voters"].count("@") == nodes


def test_further_listeners_stand_beside_the_plain_one() -> None:
    """A proxy's address is advertised while the node listens on a port of its own."""
    got = settings(
        1,
        Listener(
            name="TLS",
            security_protocol="SSL",
            advertised="127.0.0.1:9999",
            properties={"ssl.keystore.type": "PEM"},
        ),
    )
    assert got["listeners"] == (
        "PLAINTEXT://127.0.0.1:1000,CONTROLLER://127.0.0.1:1001,TLS://127.0.0.1:1002"
    )
    assert got["advertised.listeners"] == "PLAINTEXT://127.0.0.1:1000,TLS://127.0.0.1:9999"
    assert got["listener.security.protocol.map"].endswith("TLS:SSL")
    assert got["listener.name.tls.ssl.keystore.type"] == "PEM"


def test_a_listener_of_a_network() -> None:
    """It listens at an address of its own, and sends clients there; the others stay as they are."""
    got = settings(1, Listener(name="LAN", host="192.0.2.1"))
    assert got["listeners"] == (
        "PLAINTEXT://127.0.0.1:1000,CONTROLLER://127.0.0.1:1001,LAN://192.0.2.1:1002"
    )
    assert got["advertised.listeners"] == "PLAINTEXT://127.0.0.1:1000,LAN://192.0.2.1:1002"


def test_the_users_settings_win() -> None:
    """What the user sets replaces ours, and ours are there without it."""
    assert settings()["auto.create.topics.enable"] == "false"
    got = settings(wanted={"auto.create.topics.enable": "true", "offsets.retention.minutes": "1"})
    assert got["auto.create.topics.enable"] == "true"
    assert got["offsets.retention.minutes"] == "1"


@pytest.mark.parametrize("name", sorted(OURS))
def test_what_a_parameter_sets_cannot_be_set_past_it(name: str) -> None:
    """The error names the parameter to use instead."""
    with pytest.raises(SettingsError, match=f"Use {re.escape(OURS[name])}"):
        require_settable({name: "x"})


def test_each_node_needs_an_advertised_address() -> None:
    """Two nodes behind one advertised address would send clients astray."""
    with pytest.raises(SettingsError, match="one address for each node"):
        settings(2, Listener(name="PROXY", advertised="127.0.0.1:9999"))
    got = settings(2, Listener(name="PROXY", advertised=["h:1", "h:2"]))
    assert got["advertised.listeners"].endswith("PROXY://h:2")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "PLAINTEXT"},
        {"name": "CONTROLLER"},
        {"name": "small"},
        {"name": ""},
        {"name": "X", "security_protocol": "TLS"},
        {"name": "X", "advertised": "no-port"},
        {"name": "X", "advertised": ["h:1", "h"]},
    ],
)
def test_a_listener_that_kafka_would_misread_is_refused(wrong: dict[str, Any]) -> None:
    """Names, protocols and addresses are checked before Java is started."""
    with pytest.raises(SettingsError, match="istener"):
        Listener(**wrong)


def test_a_listener_never_shows_its_secrets() -> None:
    """Its properties can hold passwords, so repr() leaves them out."""
    listener = Listener(name="X", properties={"plain.sasl.jaas.config": "password=hunter2"})
    assert "hunter2" not in repr(listener)


@pytest.mark.parametrize("text", ["", "novalue", "=x", "  = hunter2"])
def test_a_pair_without_a_name_or_value_is_refused(text: str) -> None:
    """The error shows the form, and not the value, which may be a secret."""
    with pytest.raises(SettingsError, match="key=value") as caught:
        parse_pair(text)
    assert "hunter2" not in str(caught.value)


def test_a_pair_is_split_at_its_first_sign() -> None:
    """Values may hold further equals signs."""
    assert parse_pair(" a = b=c ") == ("a", "b=c")
