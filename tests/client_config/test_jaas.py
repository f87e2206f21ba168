"""`sasl.jaas.config` is read as Java reads it, or not at all; nothing of it is ever shown."""

from __future__ import annotations

import time
import traceback
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as some

from eo_listener.client_config.sasl import LoginModule
from eo_listener.errors import SettingsError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


READ: list[tuple[str, dict[str, str]]] = [
    ('{m} required username="a" password="b";', {"username": "a", "password": "b"}),
    ("{m} required username=a password='b';", {"username": "a", "password": "b"}),
    ('{m} REQUIRED username="a";', {"username": "a"}),
    ('{m} sufficient username = "a" ;', {"username": "a"}),
    ("{m} optional;", {}),
    ('{m} requisite\n  username="a"\n  password="b";\n', {"username": "a", "password": "b"}),
    (r'{m} required p="say \"hi\" \\ \n\t\61\141\0";', {"p": 'say "hi" \\ \n\t1a\0'}),
    (r'{m} required p="\400\8";', {"p": " 08"}),
    ('{m} required p="a;b=c // no comment /* nor this */";',
     {"p": "a;b=c // no comment /* nor this */"}),
    ('{m} required // a comment\n /* and\n another */ p="a";', {"p": "a"}),
    ('{m} required p="it\'s";', {"p": "it's"}),
    ("{m} required p='say \"hi\"';", {"p": 'say "hi"'}),
    ('{m} required p="first" p="last";', {"p": "last"}),
    ('{m} required p="";', {"p": ""}),
    ("{m} required flag=true name=a-b_c$d.e9;", {"flag": "true", "name": "a-b_c$d.e9"}),
    ('"{m}" required p="ü\u20ac";', {"p": "ü\u20ac"}),
]  # fmt: skip  # one case a line


@pytest.mark.parametrize(("text", "options"), READ)
def test_what_java_reads(text: str, options: dict[str, str]) -> None:
    """Quoted and bare values, escapes, comments and flags mean what they do in Java."""
    module = LoginModule.parse(text.replace("{m}", PLAIN))
    assert module.name == PLAIN
    assert module.options == options


SECRET = "hunter2hunter2"  # noqa: S105  # planted, to be looked for


REFUSED: list[tuple[str, str]] = [
    ("", "does not begin with"),
    ("   ", "does not begin with"),
    (SECRET, "does not begin with"),
    (f"{SECRET};", "does not begin with"),
    (f'{PLAIN} password="{SECRET}";', "required, requisite"),
    (f'{PLAIN} maybe password="{SECRET}";', "required, requisite"),
    (f'{PLAIN} required password="{SECRET}"', "semicolon"),
    (f"{PLAIN} required {SECRET};", "option 1"),
    (f"{PLAIN} required password=;{SECRET}", "option 1"),
    (f'{PLAIN} required ="{SECRET}";', "option 1"),
    (f"{PLAIN} required =={SECRET};", "option 1"),
    (f"{PLAIN} required password=={SECRET};", "option 1"),
    (f'{PLAIN} required password "=" {SECRET};', "option 1"),
    (f"{PLAIN} required a=b password {SECRET};", "option 2"),
    (f'{PLAIN} required username="a" password==" {SECRET}";', "option 2"),
    (f'{PLAIN} required password="{SECRET};', "character 75 is not allowed"),
    (f'{PLAIN} required password="{SECRET}\n";', "character 75 is not allowed"),
    (f"{PLAIN} required password=9{SECRET};", "need double quotes"),
    (f"{PLAIN} required password={SECRET}@x;", "need double quotes"),
    (f"{PLAIN} required keyTab=/{SECRET};", "need double quotes"),
    (f'{PLAIN} required a="b"; {PLAIN} required password="{SECRET}";', "only one login module"),
    (f'{PLAIN} required a="b";;{SECRET}', "only one login module"),
    (f"/* {SECRET}", "character 1 is not allowed"),
    ("required required required", "has no value"),
    (f'{PLAIN} required "a" "b" "{SECRET}";', "has no value"),
]  # fmt: skip  # one case a line


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_what_is_no_login_module(text: str, why: str) -> None:
    """A text that Java would refuse is refused, and the words quote nothing of it."""
    with pytest.raises(SettingsError, match="cannot be read") as caught:
        LoginModule.parse(text)
    assert why in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value, chain=True)[-1:])
    assert SECRET not in repr(caught.value)


@pytest.mark.parametrize("kind", ["JndiLoginModule", "LdapLoginModule"])
@pytest.mark.parametrize("form", ["{m}", '"{m}"', '" {m} "', r'"\143{r}"'])
def test_modules_that_fetch_from_elsewhere(kind: str, form: str) -> None:
    """A login module that would load what it runs on is refused, however its name is written."""
    name = f"com.sun.security.auth.module.{kind}"
    text = form.replace("{m}", name).replace("{r}", name[1:])
    with pytest.raises(SettingsError, match="never used") as caught:
        LoginModule.parse(f'{text} required user.provider.url="ldap://{SECRET}";')
    assert SECRET not in str(caught.value)


def test_a_module_shows_no_option() -> None:
    """The repr of a login module has its name and none of its options."""
    module = LoginModule.parse(f'{PLAIN} required password="{SECRET}";')
    assert SECRET not in repr(module)
    assert SECRET not in str(module)
    assert PLAIN in repr(module)


@given(some.text(max_size=300), some.integers(0, 80))
def test_any_text_is_read_or_refused(text: str, cut: int) -> None:
    """Every text is either read or refused with SettingsError; no other exception comes out."""
    for whole in (text, f'{PLAIN} required a="b" {text}', f'{PLAIN} required a="b";'[:cut] + text):
        with suppress(SettingsError):
            assert LoginModule.parse(whole).name


@pytest.mark.parametrize(
    "text", ['"' + "\\a" * 100_000, "/*" * 100_000, "a=" * 100_000, "x" * 400_000]
)
def test_a_long_text_is_read_quickly(text: str) -> None:
    """The time grows with the length, not with its square."""
    began = time.perf_counter()
    with pytest.raises(SettingsError):
        LoginModule.parse(text)
    assert time.perf_counter() - began < 10


NAMES = some.from_regex(r"[a-zA-Z_$][a-zA-Z0-9_.$-]{0,9}", fullmatch=True)


@given(some.dictionaries(NAMES, some.text(max_size=40)))
def test_what_is_written_is_read(options: dict[str, str]) -> None:
    """Whatever a password holds."""
    module = LoginModule(name=PLAIN, options=options)
    assert LoginModule.parse(module.text()) == module
