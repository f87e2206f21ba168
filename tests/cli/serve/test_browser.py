"""The page in a real browser, as wide as a phone. Where there is none, tests are skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eo_listener.cli.serve.groups_section import path_of
from eo_listener.model.errors import KafkaError
from eo_listener.model.lag_window import LagVerdict
from tests.browser import Browser, chromium, program
from tests.cli.serve.made_up import HOSTILE, group, served, watched

PHONE = 390
_CUT_OFF = """
[...document.querySelectorAll("body *")]
    .filter((one) => !one.closest(".wide") && one.getBoundingClientRect().right > innerWidth + 0.5)
    .map((one) => one.outerHTML.slice(0, 80))
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests here."""
    path = program()
    if path is None:
        pytest.skip("no browser: install Chromium, or name it by EO_TEST_CHROMIUM")
    with chromium(path) as made:
        yield made


def test_nothing_is_cut_off_on_a_phone(browser: Browser) -> None:
    """Hostile names of any length, errors and commands: only tables are wider, and scroll."""
    found = [group(name, [1, 2], topic=name, verdict=LagVerdict.STOP) for name in HOSTILE]
    made, _, _ = watched([*found, group("refused", [], error=HOSTILE[-1])], times=20)
    made.audit_failed(HOSTILE[-1])
    with served(made) as port:
        for path in ("/", path_of(HOSTILE[0]), path_of(HOSTILE[-1])):
            page = browser.open(f"http://127.0.0.1:{port}{path}", width=PHONE)
            assert page.value("document.querySelectorAll('article').length") > 0
            assert page.value(_CUT_OFF) == []
            assert page.value("document.documentElement.scrollWidth") == PHONE


def test_hostile_names_do_nothing(browser: Browser) -> None:
    """No element and no script is made of them; the page's own style and script are there."""
    found = [group(name, [1], topic=name, query=name) for name in HOSTILE]
    made, reader, clock = watched(found, times=3)
    made.every = 1.0
    with served(made) as port:
        page = browser.open(f"http://127.0.0.1:{port}/", width=PHONE)
        assert page.value("document.querySelectorAll('img, body script, svg[onload]').length") == 0
        assert page.value("document.body.textContent.includes('<script>alert(1)</script>')")
        assert (
            page.value("getComputedStyle(document.querySelector('article')).borderRadius") != "0px"
        )
        clock.seconds += 10
        reader.found = [group("it-refreshed")]
        made.read_groups(reader)
        page.until("document.body.textContent.includes('it-refreshed')")


@pytest.mark.slow
def test_a_page_that_gets_no_answer_says_so(browser: Browser) -> None:
    """And while Kafka is away, that nothing is known."""
    made, reader, _ = watched([group("g")])
    made.every = 1.0
    with served(made) as port:
        page = browser.open(f"http://127.0.0.1:{port}/", width=PHONE)
        assert page.value("document.getElementById('old').hidden")
        reader.found = KafkaError("no broker answered", code="_TRANSPORT", fix="Start it")
        made.try_groups(reader)
        page.until("document.querySelector('.alert')?.textContent.includes('no broker answered')")
    page.until("!document.getElementById('old').hidden", 90)
    assert "No answer since" in page.value("document.getElementById('old').textContent")
