"""A text that would reach Kafka as another one, or end the process, reaches no client."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from eo_listener.__main__ import main
from eo_listener.client_config.validation import is_printable_ascii, require_name, require_property
from eo_listener.errors import SettingsError
from eo_listener.kafka import group_stores
from eo_listener.kafka.client import MEMBER, OUTSIDER
from eo_listener.kafka.group_stores import MODES, check

SECRET = "hunter2"  # noqa: S105  # planted, to be looked for
NOT_UTF8 = b"gr\xfc\xdfe".decode("utf-8", "surrogateescape")

# Each of these ended the process, with SIGABRT or SIGSEGV, or left a SystemError behind.
PROGRAM = """
import time
from eo_listener.errors import SettingsError
from eo_listener.kafka.logs import ClusterReader
from eo_listener.kafka.group_stores import check, open_groups
from eo_listener.kafka.cluster_describer import ClusterDescriber
from eo_listener.kafka.logs import Logs
from eo_listener.offsets import TopicPartition
BAD = "gr\\udcfc\\udcdfe"
SERVERS = {"bootstrap.servers": "127.0.0.1:1"}
for number, call in enumerate((
    lambda: ClusterReader(SERVERS).group(BAD),
    lambda: check({"client.id": BAD}),
    lambda: check({BAD: "x"}),
    lambda: open_groups(SERVERS, "member").snapshot(BAD, [], timeout=1),
    lambda: open_groups(SERVERS, "transactional").snapshot(BAD, [], timeout=1),
    lambda: Logs(SERVERS).existing([TopicPartition(BAD, 0)], time.monotonic() + 1),
    lambda: ClusterDescriber(SERVERS).group(BAD),
    lambda: ClusterDescriber(SERVERS).topics([BAD]),
    lambda: open_groups({"bootstrap.servers": BAD}, "simple").snapshot("g", [], timeout=1),
)):
    try:
        call()
    except SettingsError:
        print("refused", number, flush=True)
"""


def test_what_is_not_utf8_does_not_end_the_process() -> None:
    """confluent-kafka aborts for it; here it is a SettingsError, whichever way it comes."""
    child = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert child.returncode == 0, child.stdout + child.stderr
    assert child.stdout.splitlines() == [f"refused {number}" for number in range(9)]


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "gr\udcfc\udcdfe"),
        ("status", "a\nb"),
        ("status", "g", "-X", "client.id=\udcfc"),
        ("status", "g", "-X", "cli\udcfcnt.id=x"),
        ("status", "g", "-b", "127.0.0.1:99999"),
        ("preflight", "-g", "\udcfc"),
        ("preflight", "-t", "\udcfc"),
        ("follow", "/nowhere", "-g", "\udcfc", "--once"),
        ("follow", "/nowhere", "-g", "ü", "--mode", "transactional"),
    ],
)
def test_a_command_says_what_is_wrong_with_it(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line and exit code 2, as for any other wrong use."""
    words = arguments if "-b" in arguments else (*arguments, "-b", "127.0.0.1:1")
    monkeypatch.setattr(sys, "argv", ["eo-listener", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (NOT_UTF8, "not valid UTF-8"),
        ("words-counter\0zzz", "control character"),
        ("a\nb", "control character"),
        ("a\tb", "control character"),
        ("a\x7f", "control character"),
        ("a\x85b", "control character"),
        (" a", "a space"),
        ("a ", "a space"),
        ("a\N{NO-BREAK SPACE}", "a space"),
    ],
)
def test_names_that_are_refused(name: str, says: str) -> None:
    """They would be other names to Kafka, or names that no tool shows."""
    with pytest.raises(SettingsError, match=says) as refused:
        require_name("group", name)
    assert str(refused.value).isprintable()


def test_names_that_pass() -> None:
    """Any other text is accepted as the name of a group, as Kafka does."""
    for name in ("a b", 'it\'s "q"/\\', "grüße", "群組", "a\N{RIGHT-TO-LEFT MARK}b", "x" * 300):
        require_name("group", name)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("group.id", "a\nb", "control character"),
        ("transactional.id", "a\0b", "control character"),
        ("sasl.password", f"{SECRET}\0", "sasl.password contains a NUL"),
        ("sasl.password", f"{SECRET}\udcfc", "sasl.password is not valid UTF-8"),
        ("a\0b", SECRET, "invalid name"),
        ("a\udcfc", SECRET, "invalid name"),
        ("bootstrap.servers", "a:9092,b:65536", "'b:65536' has no valid port"),
        ("bootstrap.servers", "[::1]:0", "no valid port"),
    ],
)
def test_properties_that_are_refused(name: str, value: str, says: str) -> None:
    """The error names the property, and never its value."""
    with pytest.raises(SettingsError, match=says) as refused:
        require_property(name, value)
    assert SECRET not in str(refused.value)


def test_properties_that_pass() -> None:
    """Key stores have lines, passwords any character but a NUL; functions are no texts."""
    require_property("ssl.ca.pem", "-----BEGIN\n\tx\n")
    require_property("sasl.password", " pä\tss ")
    require_property("bootstrap.servers", "a:1,[::1]:65535,SASL_SSL://c:9092, d")
    require_property("error_cb", print)
    require_property("linger.ms", 5)


@pytest.mark.parametrize("mode", MODES)
def test_a_port_that_there_is_not_is_refused_in_every_mode(mode: str) -> None:
    """Before any client is made; librdkafka would take another port."""
    with pytest.raises(SettingsError, match="'h:99999' has no valid port"):
        check({"bootstrap.servers": "h:99999"}, mode)
    check({"bootstrap.servers": "h:9092"}, mode)
    with pytest.raises(SettingsError, match="nosuch"):
        check({}, "nosuch")


@pytest.mark.parametrize(
    ("mode", "made"),
    [("simple", [OUTSIDER]), ("member", [MEMBER]), ("transactional", [OUTSIDER, "producer"])],
)
def test_properties_are_checked_by_the_clients_that_get_them(
    monkeypatch: pytest.MonkeyPatch, mode: str, made: list[object]
) -> None:
    """Each kind of client knows others; none of them is told of a server, and all are closed."""
    closed: list[object] = []

    def client(kind: object, properties: Mapping[str, str]) -> SimpleNamespace:
        assert properties == {"client.rack": "a", "bootstrap.servers": ""}
        return SimpleNamespace(close=lambda: closed.append(kind))

    monkeypatch.setattr(group_stores, "Client", lambda given, group, *, role: client(role, given))
    monkeypatch.setattr(group_stores, "OffsetProducer", lambda given, *_: client("producer", given))
    check({"client.rack": "a", "bootstrap.servers": "h:1"}, mode)
    assert closed == made


def test_what_is_printable_ascii() -> None:
    """It is what librdkafka takes for a group in a transaction."""
    assert is_printable_ascii("a B~")
    assert not any(map(is_printable_ascii, ("ü", "a\t", "\x7f")))
