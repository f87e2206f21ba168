"""As whom commits are made: the commit modes and the stores that carry them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka.admin import AdminClient

from eo_listener.client_config.validation import SERVERS, require_ports
from eo_listener.kafka.client import MEMBER, OUTSIDER, Client, accepted
from eo_listener.kafka.member_groups import MemberGroups
from eo_listener.kafka.ownership import Ownership
from eo_listener.kafka.simple_groups import SimpleGroups
from eo_listener.kafka.transactional_groups import TransactionalGroups
from eo_listener.kafka.transactional_producer import OffsetProducer
from eo_listener.model.errors import SettingsError
from eo_listener.model.protocols import GroupStore

_GROUP = "eo-listener-check"

MODES: Mapping[str, Callable[[Mapping[str, str]], GroupStore]] = {
    "simple": SimpleGroups,
    "member": MemberGroups,
    "transactional": TransactionalGroups,
}


def open_groups(properties: Mapping[str, str], mode: str) -> GroupStore:
    """The groups of one cluster in this mode; connects to nothing yet.

    Raises SettingsError for a mode that there is not.
    """
    _require(mode)
    return MODES[mode](properties)


def check(properties: Mapping[str, str], mode: str = "simple") -> None:
    """Raise SettingsError if librdkafka does not accept these properties in this mode.

    Connects to nothing.
    """
    _require(mode)
    require_ports(properties.get(SERVERS, ""))
    nowhere = {**properties, SERVERS: ""}
    Client(nowhere, _GROUP, role=MEMBER if mode == "member" else OUTSIDER).close()
    if mode == "transactional":
        OffsetProducer(nowhere, _GROUP, Ownership()).close()


def has_gssapi() -> bool:
    """Whether the librdkafka that is installed can do Kerberos; that of the wheels cannot."""
    try:
        accepted(AdminClient, {"builtin.features": "sasl_gssapi"})
    except SettingsError:  # as librdkafka answers a question for a part that it lacks
        return False
    return True


def _require(mode: str) -> None:
    if mode not in MODES:
        raise SettingsError(
            f"mode must be one of {', '.join(MODES)}, got {mode!r}", fix="Give one of these"
        )
