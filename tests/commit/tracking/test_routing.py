"""Which group and cluster each source goes to, and what is said when none can be found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.tracking.group_names import GroupNames, Groups
from eo_listener.commit.tracking.routing import TOKENS, GroupRouting, RoutedOffsets
from eo_listener.errors import SettingsError
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.progress import Progress, SourceProgress
from eo_listener.offsets import Offsets, TopicPartition
from tests.commit.tracking.memory_tracking import event

SERVERS = {"kafka.bootstrap.servers": "k:9092"}


def options(**more: str) -> dict[str, str]:
    return {**SERVERS, **{key.replace("_", "."): value for key, value in more.items()}}


def rules_of(groups: Groups = MappingProxyType({}), template: str | None = None) -> GroupRouting:
    return GroupRouting(names=GroupNames(groups=groups, template=template))


def progress(*ends: Mapping[str, Mapping[int, int]], name: str | None = "q") -> Progress:
    sources = tuple(
        SourceProgress(index=i, description="KafkaV2[..]", start=None, end=Offsets.of(end))
        for i, end in enumerate(ends)
    )
    return Progress(
        query_id="11111111-aaaa",
        run_id="22222222-bbbb",
        name=name,
        batch_id=7,
        timestamp="",
        sources=sources,
    )


def groups(route: RoutedOffsets) -> dict[str, dict[TopicPartition, int]]:
    return {c.group: {tp: p.offset for tp, p in c.positions.items()} for c in route.commits}


T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def own(group: str, **more: str) -> dict[str, str]:
    """Reader options that name a group."""
    return options(eo_commit_group=group, **more)


T, U = {"t": {0: 5}}, {"u": {0: 6}}
TURNED = {"kafka.bootstrap.servers": "a:1,b:1", "eo.commit.group": "g"}
SPACED = {**TURNED, "kafka.bootstrap.servers": "b:1, a:1"}


class TestWhichGroup:
    """An explicit mapping goes before the options, these before the template."""

    def test_the_option_people_already_use(self) -> None:
        """`kafka.consumer.commit.groupid` names the group, the source its own servers."""
        route = GroupRouting().route(progress(T), {0: options(kafka_consumer_commit_groupid="g")})
        assert groups(route) == {"g": {T0: 5}}
        assert str(route.commits[0].cluster) == "k:9092"
        written = CommitMetadata.parse(route.commits[0].positions[T0].metadata)
        assert written == CommitMetadata(
            name="q", query_id="11111111", run_id="22222222", batch_id=7
        )

    @pytest.mark.parametrize(
        ("mapping", "template", "sources", "found"),
        [
            ({}, None, [(T, own("g"))], {"g": {T0: 5}}),
            ({"q": "mine"}, "x-{topic}", [(T, own("g"))], {"mine": {T0: 5}}),
            ({"11111111-aaaa": "mine"}, None, [(T, own("g"))], {"mine": {T0: 5}}),
            ({"q": {"t": "mine", "*": "rest"}}, None, [(T, own("g"))], {"mine": {T0: 5}}),
            ({"q": {"*": "mine", "u": "v"}}, None, [(T, own("g"))], {"mine": {T0: 5}}),
            (  # of one source, a topic may go to a group of its own
                {"q": {"u": "special", "*": "rest"}},
                None,
                [(T | U, options())],
                {"rest": {T0: 5}, "special": {U0: 6}},
            ),
            (
                {},
                "{query_name}-{topic}-{query_id}-{{b}}-c",
                [(T, options())],
                {"q-t-11111111-aaaa-{b}-c": {T0: 5}},
            ),
            ({}, "x-{topic}", [(T, own("g"))], {"g": {T0: 5}}),
            ({}, None, [(T, own("a")), (U, own("b"))], {"a": {T0: 5}, "b": {U0: 6}}),
            ({}, None, [(T, own("a")), (U, own("a"))], {"a": {T0: 5, U0: 6}}),
            ({}, None, [(T, SPACED), (U, TURNED)], {"g": {T0: 5, U0: 6}}),  # one cluster
            (  # a self-join reads a partition twice: only what both have read is done
                {},
                None,
                [({"t": {0: 5, 1: 9}}, own("a")), ({"t": {0: 8, 1: 3}}, own("a"))],
                {"a": {T0: 5, T1: 3}},
            ),
            ({"q": "g"}, None, [(T, SERVERS)], {"g": {T0: 5}}),
        ],
    )
    def test_where_each_source_goes(
        self,
        mapping: Groups,
        template: str | None,
        sources: Sequence[tuple[Mapping[str, Mapping[int, int]], Mapping[str, str]]],
        found: dict[str, dict[TopicPartition, int]],
    ) -> None:
        """By mapping, option and template, in this order; what goes to one group is one commit."""
        ends, given = zip(*sources, strict=True)
        route = rules_of(mapping, template).route(progress(*ends), dict(enumerate(given)))
        assert groups(route) == found
        assert len(route.commits) == len(found)
        assert not route.ignored

    @pytest.mark.parametrize("group", ["gr\udcfc", "words-counter\0zzz", "a\nb", "a "])
    def test_a_group_that_kafka_would_not_get_is_left_alone(self, group: str) -> None:
        """From an option or through the query's name: said as a mistake, and not committed."""
        given = progress(T, name=group)
        by_name = rules_of(template="{query_name}").route(given, {0: options()})
        by_option = GroupRouting().route(given, {0: own(group)})
        for route in (by_name, by_option):
            assert not route.commits
            (why,) = route.ignored
            assert why.misconfigured
            assert repr(group) in why.problem
            assert why.fix

    @pytest.mark.parametrize(
        ("reported", "lossy"),
        [
            ((None,), False),
            (("true",), False),
            (("FALSE",), True),
            (("false", "true"), True),
            (("true", "false"), True),
        ],
    )
    def test_a_source_skips_losses(self, reported: tuple[str | None, ...], lossy: bool) -> None:
        """`failOnDataLoss=false` of one source counts for all that its group is committed."""
        given = {
            index: own("g", **({"failondataloss": one} if one else {}))
            for index, one in enumerate(reported)
        }
        ends = [{f"t{index}": {0: 5}} for index in given]
        (commit,) = GroupRouting().route(progress(*ends), given).commits
        assert commit.lossy is lossy

    def test_two_clusters_are_two_commits(self) -> None:
        """The same group name on two clusters is two groups."""
        other = {"kafka.bootstrap.servers": "other:9092", "eo.commit.group": "a"}
        route = GroupRouting().route(progress(T, U), {0: own("a"), 1: other})
        assert [str(c.cluster) for c in route.commits] == ["k:9092", "other:9092"]

    def test_an_event_without_end_offsets_commits_nothing(self) -> None:
        """No end offset, no commit, no complaint."""
        route = GroupRouting().route(event(1, query="i"), {0: own("a")})
        assert route == RoutedOffsets(query="i", sources={})


class TestSomeOfTheSources:
    """What was routed once is divided by source, and combined for each purpose by itself."""

    routed = GroupRouting().route(
        progress({"t": {0: 5}}, {"t": {0: 8}, "u": {0: 6}}, {"x": {0: 1}}),
        {0: own("a"), 1: own("a", failondataloss="false"), 2: options()},
    )

    def test_what_one_source_holds_up_the_other_has_reached(self) -> None:
        """The lower offset counts among the sources that are asked for, and no others."""
        assert groups(self.routed) == {"a": {T0: 5, U0: 6}}
        assert groups(self.routed.without([0])) == groups(self.routed.only([1]))
        assert groups(self.routed.only([1])) == {"a": {T0: 8, U0: 6}}
        assert groups(self.routed.without([1, 2])) == {"a": {T0: 5}}

    def test_each_source_brings_its_own_losses_and_reasons(self) -> None:
        """`lossy` and what is ignored are of the sources that are asked for too."""
        assert [one.lossy for one in self.routed.commits] == [True]
        assert [one.lossy for one in self.routed.without([1]).commits] == [False]
        assert [why.source for why in self.routed.ignored] == [2]
        assert [why.source for why in self.routed.without([0]).ignored] == [2]
        assert not self.routed.without([2]).ignored
        assert not self.routed.only([0, 1]).ignored

    def test_a_partition_is_shared_by_those_that_are_asked_for(self) -> None:
        """One source alone shares nothing with itself, whatever topics it reads."""
        (told,) = self.routed.shared
        assert (told.cluster, told.group, told.partitions) == ("k:9092", "a", (T0,))
        assert told.readers == ("q, source 0", "q, source 1")
        assert not self.routed.without([0]).shared
        assert not self.routed.only([0]).shared

    def test_without_kafka_there_is_no_source_to_leave_out(self) -> None:
        """The reason is of the whole query, and stays."""
        routed = GroupRouting().route(progress(), None)
        assert routed.without([0, 1]) == routed
        assert not routed.only([0]).ignored


class TestNoGroup:
    """A source that cannot be committed is left out with a reason and a way out."""

    @pytest.mark.parametrize(
        ("given", "problem", "fix", "wrong"),
        [
            (options(), "no consumer group", "kafka.consumer.commit.groupid", False),
            (own(" "), "is empty", "leave the option out", True),
            (options(kafka_consumer_commit_groupid=""), "groupid is empty", "leave", True),
            (options(eo_commit_groupid="g"), "'eo.commit.groupid'", "groupid", True),
            (
                options(kafka_consumer_commit_group_id="g"),
                "'kafka.consumer.commit.group.id'",
                "kafka.consumer.commit.groupid",
                True,
            ),
            (options(kafka_commit_groupid="g"), "'kafka.commit.groupid'", "groupid", True),
            (own("a", kafka_consumer_commit_groupid="b"), "'b' and 'a'", "only one", True),
            ({"eo.commit.group": "g"}, "bootstrap servers", "bootstrap_servers=", True),
            (own("g", kafka_security_protocol="hunter2"), "security.protocol", "SASL_SSL", True),
            (own("g", kafka_bootstrap_servers="k:99999"), "'k:99999'", "", True),
            (None, "could not be read", "groups=", True),
        ],
    )
    def test_one_clear_reason(
        self, given: Mapping[str, str] | None, problem: str, fix: str, wrong: bool
    ) -> None:
        """Each mistake has its own text, and names what to change."""
        route = GroupRouting().route(progress(T), None if given is None else {0: given})
        assert route.commits == ()
        (why,) = route.ignored
        assert problem in why.problem
        assert fix in why.fix
        assert "hunter2" not in repr(why)
        assert (why.misconfigured, why.source) == (wrong, 0)

    @pytest.mark.parametrize(
        ("name", "template", "problem"),
        [
            (None, "x-{query_name}", "'x-{query_name}'"),  # it would be a group called None
            (" ", "{query_name}", "' '"),
        ],
    )
    def test_a_template_without_group(self, name: str | None, template: str, problem: str) -> None:
        """The template is shown, or what it gives, and what is to be given."""
        route = rules_of(template=template).route(progress(T, name=name), {0: options()})
        assert route.commits == ()
        (why,) = route.ignored
        assert problem in why.problem
        assert ("queryName" in why.fix) is (name is None)
        assert why.misconfigured

    def test_a_misspelt_option_goes_before_the_template(self) -> None:
        """A group that the user meant is not replaced by the template's."""
        given = options(kafka_consumer_commit_group_id="g")
        route = rules_of(template="x-{topic}").route(progress(T), {0: given})
        assert route.commits == ()
        assert route.ignored[0].misconfigured

    @pytest.mark.parametrize(
        "innocent",
        ["kafka.group.id", "groupidprefix", "kafka.consumer.cache.capacity", "failondataloss"],
    )
    def test_other_options_are_no_misspelling(self, innocent: str) -> None:
        """Spark's own options are not taken for a misspelled group option."""
        route = GroupRouting().route(progress(T), {0: {**SERVERS, innocent: "x"}})
        assert route.ignored[0].misconfigured is False

    @pytest.mark.parametrize(
        ("named", "wrong"), [("q", True), ("11111111-aaaa", True), ("other", False)]
    )
    def test_a_query_without_kafka(self, named: str, wrong: bool) -> None:
        """Nothing to commit is said; it is a mistake only where the user named a group for it."""
        route = rules_of({named: "g"}).route(progress(), None)
        (why,) = route.ignored
        assert route.commits == ()
        assert (why.source, why.misconfigured) == (None, wrong)

    def test_one_bad_source_does_not_stop_the_other(self) -> None:
        """The good source of a query is committed beside the bad one."""
        route = GroupRouting().route(progress(T, U), {0: options(), 1: own("g")})
        assert groups(route) == {"g": {U0: 6}}
        assert [why.source for why in route.ignored] == [0]

    @pytest.mark.parametrize("bad", ["a", "u"])
    def test_one_topic_without_a_group_does_not_stop_the_others(self, bad: str) -> None:
        """Of one source, the topics that have a group are committed; the other is named."""
        route = rules_of({"q": {"t": "g"}}).route(progress(T | {bad: {0: 6}}), {0: options()})
        assert groups(route) == {"g": {T0: 5}}
        (why,) = route.ignored
        assert why.problem.startswith(f"topic {bad}: ")


PLAIN = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="alice" password="hunter2";',
}
TICKET = {
    **PLAIN,
    "kafka.sasl.mechanism": "GSSAPI",
    "kafka.sasl.kerberos.service.name": "kafka",
    "kafka.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required "
    'useKeyTab=true keyTab="/etc/me.keytab" principal="me@REALM";',
}
TRUST = {
    "kafka.security.protocol": "SSL",
    "kafka.ssl.truststore.location": "/t.jks",
    "kafka.ssl.truststore.password": "hunter2",
}
TOKEN = {**PLAIN, "kafka.sasl.mechanism": "AWS_MSK_IAM"}


class TestSecurity:
    """A cluster is entered as the source enters it; `client_config` has the translation."""

    def cluster(self, *sources: Mapping[str, str], **routing: Any) -> Cluster:
        """The one cluster that sources with these options are committed to."""
        given = {i: {**own("g"), **one} for i, one in enumerate(sources)}
        topics = ({f"t{i}": {0: 5}} for i in range(len(sources)))
        route = GroupRouting(**routing).route(progress(*topics), given)
        (commit,) = route.commits
        assert not route.ignored
        return commit.cluster

    def test_the_listeners_settings_go_before_those_of_the_source(self) -> None:
        """Each in its client's names; the servers among them."""
        cluster = self.cluster(PLAIN)
        assert dict(cluster.properties) == {
            "bootstrap.servers": "k:9092",
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "hunter2",
        }
        assert cluster.principal == "User:alice"
        mine = {"bootstrap.servers": "mine:1", "sasl.username": "bob"}
        assert dict(self.cluster(PLAIN, kafka=mine).properties) == {
            **mine,
            "security.protocol": "sasl_plaintext",
        }
        by_java = {name.removeprefix("kafka."): text for name, text in TOKEN.items()}
        assert dict(self.cluster(TOKEN, kafka={"client.id": "x"}).properties) == {
            "bootstrap.servers": "k:9092",
            **by_java,
        }

    def test_equal_settings_are_one_cluster(self) -> None:
        """Whatever else its sources are told; another password is another client."""
        other = {**TRUST, "kafka.ssl.truststore.password": "x"}
        ways = (PLAIN, TRUST, TOKEN, other)
        for given in ways:
            tuned = {**given, "kafka.max.poll.records": "7", "failondataloss": "false"}
            again = dict(reversed(list(given.items())))
            assert self.cluster(given, tuned, again) == self.cluster(given)
        assert len({self.cluster(one) for one in ways}) == 4

    @pytest.mark.parametrize("given", [PLAIN, TRUST, TOKEN])
    def test_no_text_shows_a_secret(self, given: Mapping[str, str]) -> None:
        """A cluster is named by its servers alone."""
        cluster = self.cluster(given)
        assert str(cluster) == "k:9092"
        assert "hunter2" not in repr((cluster, GroupRouting(kafka={"sasl.password": "hunter2"})))

    def test_delegation_tokens_are_javas(self) -> None:
        """Where Spark has tokens, a source that says nothing of security is left to Java."""
        routing = GroupRouting(
            names=GroupNames(groups={"q": "g"}), kafka={"bootstrap.servers": "k:1"}
        )
        reported = {**SERVERS, TOKENS: "true"}
        clients = [
            routing.route(progress(T), given).commits[0].cluster.client
            for given in ({0: reported}, {0: {**reported, **PLAIN}}, {0: SERVERS}, None)
        ]
        assert clients == ["java", "librdkafka", "librdkafka", "librdkafka"]

    def test_kerberos_is_javas_unless_librdkafka_is_known_to_do_it(self) -> None:
        """The wheels' librdkafka cannot."""
        clients = [self.cluster(TICKET, **known).client for known in ({}, {"gssapi": True})]
        assert clients == ["java", "librdkafka"]


class TestSettings:
    """What the user gives is checked when it is given."""

    @pytest.mark.parametrize("group", ["words-counter\0zzz", "gr\udcfc", "a\nb", " x", "", "  "])
    def test_a_group_that_kafka_would_not_get_is_refused(self, group: str) -> None:
        """It would be another group to Kafka, or end the process."""
        for given in ({"q": group}, {"q": {"t": group}}):
            with pytest.raises(SettingsError, match="groups"):
                rules_of(given)
        with pytest.raises(SettingsError, match="group_template"):
            rules_of(template=group)

    @pytest.mark.parametrize(
        "template",
        ["{nosuch}", "{", "{}", "{query_name.x}", "{query_name!s}", "{topic:d}", "{topic}\x1b"],
    )
    def test_a_bad_template_is_refused(self, template: str) -> None:
        """A template has known fields only."""
        with pytest.raises(SettingsError):
            rules_of(template=template)

    def test_a_transactional_commit_needs_a_group_of_ascii(self) -> None:
        """librdkafka refuses any other, so it is refused where it is named, with the mode."""
        with pytest.raises(SettingsError, match="mode='transactional'"):
            GroupNames(only_ascii=True, template="grüße-{topic}")
        names = GroupNames(template="spark-{query_name}", only_ascii=True)
        route = GroupRouting(names=names).route(progress(T, name="grüße"), {0: options()})
        assert not route.commits
        (why,) = route.ignored
        assert why.misconfigured
        assert "'spark-grüße'" in why.problem
        assert "mode='simple'" in why.fix
