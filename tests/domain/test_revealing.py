"""What of the arguments a reviewer is shown."""

import pytest

from arap_service.domain.policy import DEFAULT_MASK
from arap_service.domain.revealing import DOTS, Revealed, Shown, reveal

MASK = ("password", "api_key")


def shown(pointer: str, text: str, *, masked: bool = False, suspicious: bool = False) -> Shown:
    return Shown(pointer, text, masked, suspicious)


def test_whole_shows_every_value_in_order_with_its_place() -> None:
    """Design section 7: the arguments whole; nothing is left out, not even what is empty."""
    value = {"to": [{"account": "DE1"}, {"account": "DE2"}], "amount": 12.5, "note": None, "tags": [], "more": {}}
    assert reveal(value, allowed="whole", mask=MASK) == Revealed(
        (
            shown("/to/0/account", "DE1"),
            shown("/to/1/account", "DE2"),
            shown("/amount", "12.5"),
            shown("/note", "null"),
            shown("/tags", "[]"),
            shown("/more", "{}"),
        ),
        (),
    )


@pytest.mark.requirement("GOV-15")
@pytest.mark.parametrize("name", ["password", "Password", "api_key", "apiKey", "API-KEY"])
def test_secret_is_masked_however_it_is_spelt(name: str) -> None:
    """Catalogue GOV-15 with design section 12: whole by default with secrets masked, whatever the secret holds."""
    value = {"login": {name: {"canary": "canary"}}, "user": "ada"}
    revealed = reveal(value, allowed="whole", mask=MASK)
    assert revealed.shown == (shown(f"/login/{name}", DOTS, masked=True), shown("/user", "ada"))
    assert "canary" not in repr(revealed)


SECRETS: tuple[str, ...] = (
    "db_password",
    "githubToken",
    "x-api-key",
    "X-API-Key",
    "aws_secret_access_key",
    "auth",
    "bearer",
    "APIKey",
    "AUTH_HEADER",
    "dbPassword2",
    "userPIN",
    "stripe.secret",
    "passwort_password",
    "\u00fcberToken",
    "Set-Cookie",
)
PLAIN = ("author", "shipping", "max_tokens", "keyboard", "secretary", "apis", "pinned", "passenger", "to", "amount", "")


@pytest.mark.requirement("GOV-15")
@pytest.mark.parametrize("name", SECRETS)
def test_name_with_the_word_for_a_secret_in_it_is_masked(name: str) -> None:
    """By the default list: secrets are seldom called by one word alone."""
    revealed = reveal({name: "canary", "to": "DE1"}, allowed="whole", mask=DEFAULT_MASK)
    assert [each.masked for each in revealed.shown] == [True, False]
    assert "canary" not in repr(revealed)


@pytest.mark.parametrize("name", PLAIN)
def test_name_that_merely_contains_the_letters_is_shown(name: str) -> None:
    """A reviewer who sees dots for everything approves anything."""
    assert reveal({name: "x"}, allowed="whole", mask=DEFAULT_MASK).shown == (shown(f"/{name}", "x"),)


def test_long_name_is_looked_through_in_time_that_grows_with_its_length() -> None:
    """Names come from whoever calls the tool."""
    name = "a_" * 200_000 + "password"
    assert reveal({name: "canary"}, allowed="whole", mask=DEFAULT_MASK).shown[0].masked


@pytest.mark.requirement("GOV-15")
def test_allow_list_shows_its_members_and_names_the_others() -> None:
    """Hidden members are named as hidden, and a pointer covers what is below it and not what merely begins alike."""
    value = {"to": {"iban": "DE1", "name": "Ada"}, "total": 1, "tot": 2, "memo": "canary"}
    revealed = reveal(value, allowed=("/to", "/tot"), mask=MASK)
    assert revealed == Revealed(
        (shown("/to/iban", "DE1"), shown("/to/name", "Ada"), shown("/tot", "2")), ("/total", "/memo")
    )


def test_revealed_secret_stays_masked() -> None:
    """Naming a secret in the allow-list does not unmask it."""
    assert reveal({"password": "canary"}, allowed=("/password",), mask=MASK).shown == (
        shown("/password", DOTS, masked=True),
    )


@pytest.mark.requirement("ARS-126")
def test_deceiving_value_and_deceiving_name_are_written_out_and_marked() -> None:
    """A name can deceive as well as a value."""
    revealed = reveal({"a\u202eb": "x", "c": "y\u200b"}, allowed="whole", mask=())
    assert revealed.shown == (
        shown("/a⟦U+202E⟧b", "x", suspicious=True),
        shown("/c", "y⟦U+200B⟧", suspicious=True),
    )
    assert reveal({"a\u202eb": "x"}, allowed=(), mask=()).hidden == ("/a⟦U+202E⟧b",)


def test_nothing_to_show_is_nothing() -> None:
    """A call without arguments has no values, and no pointer to the empty object."""
    assert reveal({}, allowed="whole", mask=()) == Revealed((), ())


def test_scalar_is_its_own_place() -> None:
    """A value that is no container stands at the root."""
    assert reveal("x", allowed="whole", mask=()).shown == (shown("", "x"),)


def test_deep_and_wide_values_are_shown_whole() -> None:
    """Deeper than Python recurses, and wider than a page."""
    deep: object = "end"
    for _ in range(5000):
        deep = [deep]
    assert reveal({"a": deep}, allowed="whole", mask=()).shown[0].text == "end"
    assert len(reveal({str(n): n for n in range(10_000)}, allowed="whole", mask=MASK).shown) == 10_000
