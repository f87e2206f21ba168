"""Which group and cluster each source goes to, and what is said when none can be found."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.tracking.group_names import GroupNames, Groups
from eo_listener.commit.tracking.routing import TOKENS, GroupRouting, RoutedOffsets
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.errors import SettingsError
from eo_listener.model.offsets import Offsets, TopicPartition
from eo_listener.model.progress import Progress, SourceProgress

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


class TestWhichGroup:
    """An explicit mapping goes before the options, these before the template."""

    def test_the_option_people_already_use(self) -> None:
        """`kafka.consumer.commit.groupid` names the group, the source its own servers."""
        route = GroupRouting().route(
            progress({"t": {0: 5}}), {0: options(kafka_consumer_commit_groupid="g")}
        )
        assert groups(route) == {"g": {T0: 5}}
        assert str(route.commits[0].cluster) == "k:9092"
        written = CommitMetadata.parse(route.commits[0].positions[T0].metadata)
        assert written == CommitMetadata(
            name="q", query_id="11111111", run_id="22222222", batch_id=7
        )

    def test_our_own_option(self) -> None:
        """`eo.commit.group` names the group as well."""
        route = GroupRouting().route(progress({"t": {0: 5}}), {0: options(eo_commit_group="g")})
        assert groups(route) == {"g": {T0: 5}}

    @pytest.mark.parametrize(
        "mapping",
        [
            {"q": "mine"},
            {"11111111-aaaa": "mine"},
            {"q": {"t": "mine", "*": "rest"}},
            {"q": {"*": "mine", "u": "other"}},
        ],
    )
    def test_the_mapping_wins(self, mapping: Groups) -> None:
        """A mapping by query, by id, or by query and topic goes before the source's option."""
        routing = rules_of(mapping, "x-{topic}")
        route = routing.route(progress({"t": {0: 5}}), {0: options(eo_commit_group="g")})
        assert groups(route) == {"mine": {T0: 5}}

    @pytest.mark.parametrize("group", ["gr\udcfc", "words-counter\0zzz", "a\nb", "a "])
    def test_a_group_that_kafka_would_not_get_is_left_alone(self, group: str) -> None:
        """From an option or through the query's name: said as a mistake, and not committed."""
        given = progress({"t": {0: 5}}, name=group)
        by_name = rules_of(template="{query_name}").route(given, {0: options()})
        by_option = GroupRouting().route(given, {0: options(eo_commit_group=group)})
        for route in (by_name, by_option):
            assert not route.commits
            (why,) = route.ignored
            assert why.misconfigured
            assert why.problem.startswith(f"the group of this source {group!r}")
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
    def test_a_source_that_skips_losses(
        self, reported: tuple[str | None, ...], lossy: bool
    ) -> None:
        """`failOnDataLoss=false` of one source counts for all that its group is committed."""
        given = {
            index: {**options(eo_commit_group="g"), **({"failondataloss": one} if one else {})}
            for index, one in enumerate(reported)
        }
        ends = [{f"t{index}": {0: 5}} for index in given]
        (commit,) = GroupRouting().route(progress(*ends), given).commits
        assert commit.lossy is lossy

    def test_a_source_at_a_port_that_there_is_not(self) -> None:
        """librdkafka would connect to another one."""
        given = {**options(eo_commit_group="g"), "kafka.bootstrap.servers": "k:99999"}
        route = GroupRouting().route(progress({"t": {0: 5}}), {0: given})
        assert not route.commits
        assert "'k:99999' has no valid port" in route.ignored[0].problem

    def test_a_topic_goes_before_its_query(self) -> None:
        """Of one source, one topic may go to a group of its own."""
        routing = rules_of({"q": {"u": "special", "*": "rest"}})
        route = routing.route(progress({"t": {0: 5}, "u": {0: 6}}), {0: options()})
        assert groups(route) == {"rest": {T0: 5}, "special": {U0: 6}}

    def test_the_template_comes_last(self) -> None:
        """The template fills in query, id and topic where nothing else names a group."""
        routing = rules_of(template="spark-{query_name}-{topic}-{query_id}")
        route = routing.route(progress({"t": {0: 5}}), {0: options()})
        assert groups(route) == {"spark-q-t-11111111-aaaa": {T0: 5}}
        route = routing.route(progress({"t": {0: 5}}), {0: options(eo_commit_group="g")})
        assert groups(route) == {"g": {T0: 5}}

    def test_two_sources_two_groups_or_one(self) -> None:
        """Sources keep their own groups, and are united where they name the same one."""
        both = progress({"t": {0: 5}}, {"u": {0: 6}})
        apart = {0: options(eo_commit_group="a"), 1: options(eo_commit_group="b")}
        assert groups(GroupRouting().route(both, apart)) == {"a": {T0: 5}, "b": {U0: 6}}
        together = {0: options(eo_commit_group="a"), 1: options(eo_commit_group="a")}
        route = GroupRouting().route(both, together)
        assert groups(route) == {"a": {T0: 5, U0: 6}}
        assert len(route.commits) == 1

    def test_two_clusters_are_two_commits(self) -> None:
        """The same group name on two clusters is two groups."""
        other = {"kafka.bootstrap.servers": "other:9092", "eo.commit.group": "a"}
        both = progress({"t": {0: 5}}, {"u": {0: 6}})
        route = GroupRouting().route(both, {0: options(eo_commit_group="a"), 1: other})
        assert [str(c.cluster) for c in route.commits] == ["k:9092", "other:9092"]

    def test_of_two_sources_on_one_partition_the_lesser_counts(self) -> None:
        """A self-join reads a partition twice: only what both have read is done."""
        twice = progress({"t": {0: 5, 1: 9}}, {"t": {0: 8, 1: 3}})
        same = {i: options(eo_commit_group="a") for i in (0, 1)}
        assert groups(GroupRouting().route(twice, same)) == {"a": {T0: 5, T1: 3}}

    def test_an_event_without_end_offsets_commits_nothing(self) -> None:
        """No end offset, no commit, no complaint."""
        source = SourceProgress(index=0, description="", start=None, end=None)
        idle = Progress(
            query_id="i", run_id="r", name=None, batch_id=1, timestamp="", sources=(source,)
        )
        route = GroupRouting().route(idle, {0: options(eo_commit_group="a")})
        assert route == RoutedOffsets(query="i", sources={})


class TestSomeOfTheSources:
    """What was routed once is divided by source, and combined for each purpose by itself."""

    routed = GroupRouting().route(
        progress({"t": {0: 5}}, {"t": {0: 8}, "u": {0: 6}}, {"x": {0: 1}}),
        {
            0: options(eo_commit_group="a"),
            1: options(eo_commit_group="a", failondataloss="false"),
            2: options(),
        },
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
            (options(eo_commit_group=" "), "is empty", "leave the option out", True),
            (
                options(kafka_consumer_commit_groupid=""),
                "kafka.consumer.commit.groupid is empty",
                "leave the option out",
                True,
            ),
            (options(eo_commit_groupid="g"), "'eo.commit.groupid'", "groupid", True),
            (
                options(kafka_consumer_commit_group_id="g"),
                "'kafka.consumer.commit.group.id'",
                "kafka.consumer.commit.groupid",
                True,
            ),
            (options(kafka_commit_groupid="g"), "'kafka.commit.groupid'", "groupid", True),
            (
                options(eo_commit_group="a", kafka_consumer_commit_groupid="b"),
                "two groups, 'b' and 'a'",
                "only one",
                True,
            ),
            ({"eo.commit.group": "g"}, "bootstrap servers", "bootstrap_servers=", True),
            (
                options(eo_commit_group="g", kafka_security_protocol="hunter2"),
                "kafka.security.protocol names no security protocol",
                "SASL_SSL",
                True,
            ),
            (None, "could not be read", "groups=", True),
        ],
    )
    def test_one_clear_reason(
        self, given: Mapping[str, str] | None, problem: str, fix: str, wrong: bool
    ) -> None:
        """Each mistake has its own text, and names what to change."""
        options_ = None if given is None else {0: given}
        route = GroupRouting().route(progress({"t": {0: 5}}), options_)
        assert route.commits == ()
        (why,) = route.ignored
        assert problem in why.problem
        assert fix in why.fix
        assert "hunter2" not in repr(why)
        assert why.misconfigured is wrong
        assert why.source == 0

    @pytest.mark.parametrize(
        "innocent",
        ["kafka.group.id", "groupidprefix", "kafka.consumer.cache.capacity", "failondataloss"],
    )
    def test_other_options_are_no_misspelling(self, innocent: str) -> None:
        """Spark's own options are not taken for a misspelled group option."""
        route = GroupRouting().route(progress({"t": {0: 5}}), {0: {**SERVERS, innocent: "x"}})
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
        both = progress({"t": {0: 5}}, {"u": {0: 6}})
        route = GroupRouting().route(both, {0: options(), 1: options(eo_commit_group="g")})
        assert groups(route) == {"g": {U0: 6}}
        assert [why.source for why in route.ignored] == [0]

    @pytest.mark.parametrize("bad", ["a", "u"])
    def test_one_topic_without_a_group_does_not_stop_the_others(self, bad: str) -> None:
        """Of one source, the topics that have a group are committed; the other is named."""
        route = rules_of({"q": {"t": "g"}}).route(
            progress({"t": {0: 5}, bad: {0: 6}}), {0: options()}
        )
        assert groups(route) == {"g": {T0: 5}}
        (why,) = route.ignored
        assert why.problem.startswith(f"topic {bad}: ")

    def test_a_misspelt_option_goes_before_the_template(self) -> None:
        """A group that the user meant is not replaced by the template's."""
        route = rules_of(template="x-{topic}").route(
            progress({"t": {0: 5}}), {0: options(kafka_consumer_commit_group_id="g")}
        )
        assert route.commits == ()
        assert route.ignored[0].misconfigured

    def test_two_spellings_of_the_servers_are_one_cluster(self) -> None:
        """The order of the servers and spaces between them make no second client."""
        one = {"kafka.bootstrap.servers": "b:1, a:1", "eo.commit.group": "g"}
        two = {"kafka.bootstrap.servers": "a:1,b:1", "eo.commit.group": "g"}
        route = GroupRouting().route(progress({"t": {0: 5}}, {"u": {0: 6}}), {0: one, 1: two})
        assert groups(route) == {"g": {T0: 5, U0: 6}}

    def test_a_template_with_a_name_needs_a_name(self) -> None:
        """An unnamed query does not end up in a group called None."""
        route = rules_of(template="x-{query_name}").route(
            progress({"t": {0: 5}}, name=None), {0: options()}
        )
        assert route.commits == ()
        assert "queryName" in route.ignored[0].fix
        assert "'x-{query_name}' needs the name" in route.ignored[0].problem
        assert "without queryName" in route.ignored[0].cause

    def test_a_template_that_makes_no_group(self) -> None:
        """The error shows what the template gives, and has no cause of its own."""
        route = rules_of(template="{query_name}").route(
            progress({"t": {0: 5}}, name=" "), {0: options()}
        )
        (why,) = route.ignored
        assert why.problem.endswith("must be the name of a consumer group, got ' '")
        assert (why.cause, why.misconfigured) == ("", True)


PLAIN = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="alice" password="hunter2";',
}
TICKET = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
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
    """A cluster is entered as the source enters it."""

    def cluster(self, *sources: Mapping[str, str], routing: GroupRouting | None = None) -> Cluster:
        """The one cluster that sources with these options are committed to."""
        given = {i: {**options(eo_commit_group="g"), **one} for i, one in enumerate(sources)}
        topics = ({f"t{i}": {0: 5}} for i in range(len(sources)))
        route = (routing or GroupRouting()).route(progress(*topics), given)
        (commit,) = route.commits
        assert not route.ignored
        return commit.cluster

    def test_the_sources_own_settings_are_carried_over(self) -> None:
        """What the source says of the cluster is said to the client, in librdkafka's names."""
        cluster = self.cluster(PLAIN)
        assert dict(cluster.properties) == {
            "bootstrap.servers": "k:9092",
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "hunter2",
        }
        assert (cluster.client, cluster.stores) == ("librdkafka", ())
        assert cluster.principal == "User:alice"

    def test_stores_and_java_are_left_to_who_opens_the_cluster(self) -> None:
        """Key stores are named for Java to read; what only Java can do keeps Java's names."""
        (store,) = self.cluster(TRUST).stores
        assert (store.location, store.password) == ("/t.jks", "hunter2")
        cluster = self.cluster(TOKEN)
        assert cluster.client == "java"
        assert cluster.principal is None
        assert dict(cluster.properties) == {
            "bootstrap.servers": "k:9092",
            **{name.removeprefix("kafka."): text for name, text in TOKEN.items()},
        }

    @pytest.mark.parametrize("given", [PLAIN, TRUST, TOKEN])
    def test_equal_settings_are_one_cluster(self, given: Mapping[str, str]) -> None:
        """Two sources with the same settings share a client, whatever else they are told."""
        tuned = {**given, "kafka.max.poll.records": "7", "failondataloss": "false"}
        assert self.cluster(given, tuned, dict(reversed(list(given.items())))) == self.cluster(
            given
        )

    def test_another_password_is_another_cluster(self) -> None:
        """Two ways in are two clients."""
        other = {**TRUST, "kafka.ssl.truststore.password": "x"}
        assert len({self.cluster(one) for one in (PLAIN, TRUST, TOKEN, other)}) == 4

    @pytest.mark.parametrize("given", [PLAIN, TRUST, TOKEN])
    def test_no_text_shows_a_secret(self, given: Mapping[str, str]) -> None:
        """A cluster is named by its servers alone."""
        cluster = self.cluster(given)
        assert str(cluster) == "k:9092"
        assert "hunter2" not in repr(cluster)

    def test_delegation_tokens_are_javas(self) -> None:
        """Where Spark has tokens, a source that says nothing of security is left to Java."""
        routing = GroupRouting(
            names=GroupNames(groups={"q": "g"}), kafka={"bootstrap.servers": "k:1"}
        )
        reported = {**SERVERS, TOKENS: "true"}
        clients = [
            routing.route(progress({"t": {0: 5}}), given).commits[0].cluster.client
            for given in ({0: reported}, {0: {**reported, **PLAIN}}, {0: SERVERS}, None)
        ]
        assert clients == ["java", "librdkafka", "librdkafka", "librdkafka"]

    def test_kerberos_is_javas_unless_librdkafka_is_known_to_do_it(self) -> None:
        """The wheels' librdkafka cannot."""
        roads = [
            self.cluster(TICKET, routing=routing).client
            for routing in (None, GroupRouting(gssapi=True))
        ]
        assert roads == ["java", "librdkafka"]

    def test_what_the_listener_is_given_wins(self) -> None:
        """The user's properties go before those of the source, its servers among them."""
        routing = GroupRouting(kafka={"bootstrap.servers": "mine:1", "sasl.username": "bob"})
        cluster = self.cluster(PLAIN, routing=routing)
        assert dict(cluster.properties) == {
            "bootstrap.servers": "mine:1",
            "security.protocol": "sasl_plaintext",
            "sasl.username": "bob",
        }
        assert dict(
            self.cluster(TOKEN, routing=GroupRouting(kafka={"client.id": "x"})).properties
        ) == {
            "bootstrap.servers": "k:9092",
            **{name.removeprefix("kafka."): text for name, text in TOKEN.items()},
        }


class TestSettings:
    """What the user gives is checked when it is given."""

    @pytest.mark.parametrize(
        "group", ["words-counter\0zzz", "gr\udcfc", "a\nb", " x", "x{query_name}\x1b"]
    )
    def test_a_group_that_kafka_would_not_get_is_refused(self, group: str) -> None:
        """It would be another group to Kafka, or end the process."""
        for given in ({"q": group}, {"q": {"t": group}}):
            with pytest.raises(SettingsError, match="groups"):
                rules_of(given)
        with pytest.raises(SettingsError, match="group_template"):
            rules_of(template=group)

    @pytest.mark.parametrize("given", ["my-group", {"my-group"}, ["q", "g"], None])
    def test_groups_that_are_no_mapping_are_refused(self, given: Any) -> None:
        """A single group for all is a template."""
        with pytest.raises(SettingsError, match="group_template='group'"):
            rules_of(given)

    def test_a_transactional_commit_needs_a_group_of_ascii(self) -> None:
        """librdkafka refuses any other, so it is refused where it is named, with the mode."""
        for given in ({"groups": {"q": "grüße"}}, {"template": "grüße-{topic}"}):
            with pytest.raises(SettingsError, match="mode='transactional'"):
                GroupNames(only_ascii=True, **given)
        names = GroupNames(template="spark-{query_name}", only_ascii=True)
        route = GroupRouting(names=names).route(
            progress({"t": {0: 5}}, name="grüße"), {0: options()}
        )
        assert not route.commits
        (why,) = route.ignored
        assert why.misconfigured
        assert "'spark-grüße', and mode='transactional' takes printable ASCII" in why.problem
        assert "librdkafka refuses" in why.cause
        assert "mode='simple'" in why.fix

    @pytest.mark.parametrize("group", ["", "  ", None, 5])
    def test_an_empty_group_is_refused(self, group: str) -> None:
        """A group must be a name."""
        with pytest.raises(SettingsError, match="name of a consumer group"):
            rules_of({"q": group})
        with pytest.raises(SettingsError, match="name of a consumer group"):
            rules_of({"q": {"t": group}})

    def test_a_template_may_end_with_any_text(self) -> None:
        """Fields and braces stand anywhere in it."""
        route = rules_of(template="a-{topic}-{{b}}-c").route(
            progress({"t": {0: 5}}), {0: options()}
        )
        assert groups(route) == {"a-t-{b}-c": {T0: 5}}

    @pytest.mark.parametrize(
        "template", ["", "{nosuch}", "{", "{}", "{query_name.x}", "{query_name!s}", "{topic:d}"]
    )
    def test_a_bad_template_is_refused(self, template: str) -> None:
        """A template has known fields only."""
        with pytest.raises(SettingsError):
            rules_of(template=template)

    def test_explicit_servers_serve_without_the_query(self) -> None:
        """With servers and group given, nothing needs to be read from the running query."""
        routing = GroupRouting(
            names=GroupNames(groups={"q": "g"}), kafka={"bootstrap.servers": "mine:1"}
        )
        route = routing.route(progress({"t": {0: 5}}), None)
        assert groups(route) == {"g": {T0: 5}}
        assert str(route.commits[0].cluster) == "mine:1"

    def test_client_settings_win_and_stay_hidden(self) -> None:
        """The listener's own client settings go to the client and to no text."""
        secret = {"security.protocol": "SASL_SSL", "sasl.password": "hunter2"}
        routing = GroupRouting(kafka=secret)
        given = options(eo_commit_group="g", kafka_security_protocol="SASL_SSL")
        (commit,) = routing.route(progress({"t": {0: 5}}), {0: given}).commits
        assert dict(commit.cluster.properties)["sasl.password"] == "hunter2"
        for shown in (repr(routing), repr(commit), str(commit.cluster), repr(commit.cluster)):
            assert "hunter2" not in shown

    def test_equal_properties_are_one_cluster(self) -> None:
        """Two sources with the same settings share a client."""
        assert Cluster.of({"a": "1", "b": "2"}) == Cluster.of({"b": "2", "a": "1"})
