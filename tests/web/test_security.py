"""Origin, form token, target after log-in and response headers; Fetch Metadata, RFC 6454, CSP Level 3."""

import pytest

from arap_service.web.security import CONTENT_SECURITY_POLICY, form_token, is_form_token, is_same_origin, safe_target

IDENTIFIER = "https://pdp.example.com/base"
HOST = {"host": "testserver"}


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "same-origin", "origin": "null"},
        {"sec-fetch-site": "same-origin", "origin": "https://testserver"},
        {"sec-fetch-site": "same-origin", "origin": "https://pdp.example.com"},
        {"origin": "https://pdp.example.com"},
        {"origin": "http://testserver"},
    ],
)
def test_a_form_of_this_site_is_accepted(headers: dict[str, str]) -> None:
    assert is_same_origin(HOST | headers, identifier=IDENTIFIER)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "https://evil.example"},
        {"origin": "https://pdp.example.com.evil.example"},
        {"origin": "https://pdp.example.com:444"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": ""},
        {"sec-fetch-site": "cross-site", "origin": "https://testserver"},
        {"sec-fetch-site": "same-origin", "origin": "https://evil.example"},
    ],
)
def test_a_form_of_another_or_of_no_site_is_refused(headers: dict[str, str]) -> None:
    assert not is_same_origin(HOST | headers, identifier=IDENTIFIER)


def test_without_a_host_only_the_configured_origin_counts() -> None:
    assert not is_same_origin({"origin": "https://"}, identifier=IDENTIFIER)


def test_a_form_token_belongs_to_one_secret() -> None:
    token = form_token("one")
    assert is_form_token(token, secret="one")
    assert not is_form_token(token, secret="two")
    assert "one" not in token


@pytest.mark.parametrize("token", [None, "", 7, "x", "é", "\ud800"])
def test_what_is_no_token_is_refused(token: object) -> None:
    assert not is_form_token(token, secret="one")


@pytest.mark.parametrize("target", ["/desk", "/desk/requests/task_1", "/desk?show=all&q=a"])
def test_a_page_of_the_desk_is_a_target(target: str) -> None:
    assert safe_target(target) == target


@pytest.mark.parametrize(
    "target",
    [
        None, "", "desk", "/", "//evil.example", "/desk.evil.example", "https://evil.example/desk", "/desk/../logout",
        "/desk/\\evil.example", "/desk\r\nSet-Cookie: a=b", "/desk/é", "/desk/" + "a" * 500, "/deskx",
        "javascript:alert(1)",
    ],
)  # fmt: skip
def test_any_other_target_becomes_the_queue(target: object) -> None:
    assert safe_target(target) == "/desk"


def test_the_policy_starts_closed_and_allows_no_inline_code() -> None:
    directives = dict(part.strip().split(" ", 1) for part in CONTENT_SECURITY_POLICY.split(";"))
    assert directives == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
