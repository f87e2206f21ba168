"""Finds the consumer group that gets the offsets of a topic.

The first of the following settings that names a group counts: the entry of `groups` for the query,
or for the topic in the query; the source option `kafka.consumer.commit.groupid`; the source option
`eo.commit.group`; the template. If no setting names a group for a source, the listener does not
commit its offsets.
"""

from __future__ import annotations

import difflib
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from eo_listener.client_config.validation import is_printable_ascii, require_name
from eo_listener.errors import SettingsError
from eo_listener.model.progress import Progress

GROUP_OPTION = "kafka.consumer.commit.groupid"
OWN_GROUP_OPTION = "eo.commit.group"

TEMPLATE_FIELDS = ("query_name", "query_id", "topic")

Groups = Mapping[str, "str | Mapping[str, str]"]
"""A group for each query, by name or id, or its groups by topic, with `*` for all other topics."""


class NotCommitted(Exception):  # noqa: N818  # no error: why a topic is not committed
    """Raised if a topic has no group or cluster; `misconfigured` is True if a setting is wrong.

    `cause` is None if the reason is that the source's options are unknown.
    """

    def __init__(
        self, problem: str, cause: str | None, fix: str, *, misconfigured: bool = True
    ) -> None:
        super().__init__(problem)
        self.problem, self.cause, self.fix = problem, cause, fix
        self.misconfigured = misconfigured


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNames:
    """The user's settings for the names of groups.

    `only_ascii` allows only ASCII names, as the transactional mode requires: librdkafka refuses
    groups with other names in a transaction. Raises SettingsError for a group name that is invalid
    (see `require_name`), and for a template field that cannot be used.
    """

    groups: Groups = field(default_factory=lambda: MappingProxyType({}))
    template: str | None = None
    only_ascii: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.groups, Mapping):
            raise SettingsError(
                f"groups is {self.groups!r}, which names no query",
                fix="Give {'query': 'group'}; for every query, group_template='group'",
            )
        for query, entry in self.groups.items():
            if isinstance(entry, Mapping):
                for topic, group in entry.items():
                    self._require(group, f"groups[{query!r}][{topic!r}]")
            else:
                self._require(entry, f"groups[{query!r}]")
        if self.template is not None:
            self._require(self.template, "group_template")
            _check_template(self.template)

    def _require(self, group: object, where: str) -> None:
        require_group(group, where, only_ascii=self.only_ascii)

    def mention(self, progress: Progress) -> bool:
        """Return True if `groups` has an entry for this query."""
        return progress.name in self.groups or progress.query_id in self.groups

    def find(self, progress: Progress, topic: str, options: Mapping[str, str] | None) -> str:
        """Return the group that gets a topic's offsets. Raises NotCommitted if there is no group.

        `options` are the options of the topic's source, with keys in lower case, or None if they
        are unknown.
        """
        group = self._mapped(progress, topic)
        if group is None and options is not None:
            group = _option(options)
        if group is None and self.template is not None:
            group = _filled(self.template, progress, topic)
        if group is not None:
            try:
                self._require(group, "the group of this source")
            except SettingsError as error:
                raise NotCommitted(error.problem, error.cause or "", error.fix or "") from None
            return group
        if options is None:
            raise NotCommitted(
                "the options of this source could not be read, so its group is unknown",
                None,
                "name the group: OffsetCommitListener(groups={'<query name>': '<group>'})",
            )
        raise NotCommitted(
            "no consumer group is named for this source, so its offsets are not committed",
            f"its options set neither {GROUP_OPTION} nor {OWN_GROUP_OPTION}",
            f"add .option('{GROUP_OPTION}', '<group>') to the reader to commit its offsets",
            misconfigured=False,
        )

    def _mapped(self, progress: Progress, topic: str) -> str | None:
        for query in (progress.name, progress.query_id):
            named = self.groups.get(query) if query is not None else None
            if isinstance(named, Mapping):
                named = named.get(topic, named.get("*"))
            if named is not None:
                return named
        return None


def _option(options: Mapping[str, str]) -> str | None:
    values = {name: options[name] for name in (GROUP_OPTION, OWN_GROUP_OPTION) if name in options}
    for name, value in values.items():
        if not value.strip():
            raise NotCommitted(
                f"the source option {name} is empty",
                "a variable in the job may be unset",
                f"set .option('{name}', '<group>'), or leave the option out",
            )
    if len(set(values.values())) > 1:
        raise NotCommitted(
            f"the source options {GROUP_OPTION} and {OWN_GROUP_OPTION} name two groups, "
            f"{values[GROUP_OPTION]!r} and {values[OWN_GROUP_OPTION]!r}",
            "the job sets both",
            "set only one of them",
        )
    if not values:
        _refuse_near_miss(options)
    return next(iter(values.values()), None)


def _refuse_near_miss(options: Iterable[str]) -> None:
    """Raise NotCommitted for an option that may be a misspelt group option."""
    for name in options:
        own = name.startswith("eo.")
        if own or difflib.get_close_matches(name, (GROUP_OPTION, OWN_GROUP_OPTION), cutoff=0.8):
            raise NotCommitted(
                f"eo_listener does not know the source option {name!r}",
                "the option may be misspelt",
                f"write .option('{GROUP_OPTION}', '<group>')",
            )


def _filled(template: str, progress: Progress, topic: str) -> str:
    if progress.name is None and "{query_name}" in template:
        raise NotCommitted(
            f"the group template {template!r} needs the name of the query",
            "the query was started without queryName",
            "add .queryName('...') to the query, or use {query_id} in the template",
        )
    return template.format(query_name=progress.name, query_id=progress.query_id, topic=topic)


def require_group(group: object, where: str, *, only_ascii: bool = False) -> None:
    """Raise SettingsError if `group` is not a valid name; `where` is the setting that has it."""
    if not isinstance(group, str) or not group.strip():
        raise SettingsError(
            f"{where} must be the name of a consumer group, got {group!r}",
            fix="Give a name, such as 'flights-to-pg'",
        )
    require_name(where, group)
    if only_ascii and not is_printable_ascii(group):
        raise SettingsError(
            f"{where} is {group!r}, but mode='transactional' takes printable ASCII only",
            cause="librdkafka refuses other characters in the group of a transaction",
            fix="Give the group an ASCII name, or use mode='simple' or mode='member'",
        )


def _check_template(template: str) -> None:
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise SettingsError(
            f"group_template {template!r} cannot be read",
            cause=str(error),
            fix="Write a single brace twice",
        ) from error
    for _, name, spec, conversion in parts:
        if name is not None and (name not in TEMPLATE_FIELDS or spec or conversion):
            raise SettingsError(
                f"group_template {template!r} has a field {{{name}}} that cannot be used",
                fix=f"Use only {', '.join(f'{{{name}}}' for name in TEMPLATE_FIELDS)}",
            )
