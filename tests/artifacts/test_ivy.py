"""What Ivy is told, and what is understood of what it prints."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.artifacts import Artifact
from tests.artifacts.ivy import explain, progress, render_ivy

LOG = Path("kept.log")
KAFKA = Artifact(organisation="org.apache.kafka", name="kafka_2.13", revision="9.9.9")


def test_a_descriptor_asks_for_every_artifact_in_one_run() -> None:
    """One ivy.xml holds jars, an exclusion, and an archive with a classifier."""
    text = render_ivy(
        [
            KAFKA,
            Artifact(organisation="a", name="b", revision="1", without=("c:d",)),
            Artifact(
                organisation="e",
                name="f",
                revision="2",
                classifier="bin",
                extension="zip",
                transitive=False,
            ),
        ]
    )
    first, second, third = ET.fromstring(text).iter("dependency")  # noqa: S314 - our own text
    assert first.attrib["name"] == "kafka_2.13"
    assert first.attrib["transitive"] == "true"
    assert list(first) == []
    assert second.find("exclude") is not None
    assert third.attrib["transitive"] == "false"
    archive = third.find("artifact")
    assert archive is not None
    assert archive.attrib["ext"] == "zip"
    assert archive.attrib["{http://ant.apache.org/ivy/maven}classifier"] == "bin"


def test_names_cannot_break_out_of_the_descriptor() -> None:
    """A quote in a coordinate stays text in the XML."""
    text = render_ivy([Artifact(organisation='a"><x/>', name="b", revision="1")])
    (dependency,) = ET.fromstring(text).iter("dependency")  # noqa: S314 - our own text
    assert dependency.attrib["org"] == 'a"><x/>'


@pytest.mark.parametrize(
    ("lines", "news"),
    [
        (["\tfound a#b;1.0 in central\n"], "resolved 1: b;1.0"),
        (
            ["\tfound a#b;1 in x\n", "\tfound a#c;1 in x\n", "downloading h://r/b-1.jar ...\n"],
            "downloading 1 of 2: b-1.jar",
        ),
        (["\t[SUCCESSFUL ] a#b;1!b.jar (7ms)\n"], None),
        (["\n"], None),
    ],
)
def test_output_becomes_progress(lines: list[str], news: str | None) -> None:
    """Lines about a module or a file are told with a count, all others are not."""
    assert progress(lines[-1], lines) == news


@pytest.mark.parametrize(
    ("log", "cause", "fix"),
    [
        (
            "\t:: org.apache.kafka#kafka_2.13;9.9.9: not found\n",
            "no such version",
            "another version",
        ),
        (
            (
                "\t:: org.apache.kafka#kafka_2.13;9.9.9: not found\n"
                "Server access error at url h://r (java.net.UnknownHostException: r)\n"
            ),
            "did not answer",
            "https.proxyHost",
        ),
        ("Exception in thread main\n", "ended with an error", "kept.log"),
    ],
)
def test_a_failure_names_the_artifact_the_cause_and_the_log(log: str, cause: str, fix: str) -> None:
    """A missing version and a missing network are told apart."""
    error = explain(log, [KAFKA], LOG)
    assert "org.apache.kafka:kafka_2.13:9.9.9" in error.problem
    assert cause in str(error.cause)
    assert fix in str(error.fix)
    assert "kept.log" in str(error)


def test_many_that_failed_are_counted() -> None:
    """Of many artifacts that could not be had a few are named, so that the cause can be seen."""
    wanted = [
        Artifact(organisation="org.example", name=f"part-{n}", revision="1") for n in range(45)
    ]
    assert len(str(explain("", wanted, LOG))) < 600
