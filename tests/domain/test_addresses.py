"""Addresses that lead elsewhere than they seem to."""

import pytest

from arap_service.domain.addresses import MOST, Lead, leads_of


@pytest.mark.parametrize(
    ("text", "lead"),
    [
        ("https://bank.example@evil.example/login", Lead("bank.example", "evil.example")),
        ("see https://a:b@evil.example:8443", Lead("a:b", "evil.example")),
        (
            "https://\u0430\u0440\u0440\u04cf\u0435.com/",
            Lead("\u0430\u0440\u0440\u04cf\u0435.com", "xn--80ak6aa92e.com"),
        ),
        (
            "mail to pay@\u0430\u0440\u0440\u04cf\u0435.com",
            Lead("\u0430\u0440\u0440\u04cf\u0435.com", "xn--80ak6aa92e.com"),
        ),
        ("https://xn--mnchen-3ya.example", Lead("xn--mnchen-3ya.example", "münchen.example")),
        ("http://2130706433/admin", Lead("2130706433", "127.0.0.1")),
        ("http://0x7f.1:8080/", Lead("0x7f.1", "127.0.0.1")),
        ("https:\\\\a@evil.example", Lead("a", "evil.example")),
    ],
)
def test_the_real_end_of_an_address_is_told(text: str, lead: Lead) -> None:
    assert lead in leads_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://bank.example/pay?to=a@b.example",
        "http://127.0.0.1:8080/",
        "ada@example.com",
        "Version 1.2.3, see example.com",
        "Über. Und weiter",
        "да.нет",
        "xn--",
        "https://[::1]:80/x",
    ],
)
def test_what_leads_where_it_says_is_left_alone(text: str) -> None:
    assert leads_of(text) == ()


def test_what_a_coded_name_hides_is_written_out_and_each_is_told_once() -> None:
    (found,) = leads_of("xn--80ak6aa92e.com xn--80ak6aa92e.com")
    assert found.real == "\u0430\u0440\u0440\u04cf\u0435.com"
    assert len(leads_of(" ".join(f"http://u{n}@h.example" for n in range(100)))) == MOST


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "host",
    [
        "".join(map(chr, range(0x4E00, 0x4E00 + 20_000))),
        ".".join(["\u0430" * 63] * 5),
        "xn--" + "a" * 200_000,
    ],
    ids=["many characters", "a long name", "a long coded label"],
)
def test_what_is_too_long_to_be_a_name_is_neither_coded_nor_decoded(host: str) -> None:
    assert leads_of(f"https://{host}/") == ()
    (found,) = leads_of(f"https://a@{host}/")
    assert found.written == "a"


def test_the_longest_name_that_there_can_be_is_told() -> None:
    (found,) = leads_of("https://" + ".".join(["\u0430" * 63] * 3))
    assert found.real.startswith("xn--")
