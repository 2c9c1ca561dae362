"""Names of things of several servers. Provenance: a gateway must never let one server answer for another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_gate.prefixes import Prefix

GIT, GIT_HUB, ALONE = Prefix("git"), Prefix("git-hub"), Prefix("")
SERVERS = st.from_regex(r"[a-z][a-z0-9-]{0,9}", fullmatch=True)


@given(SERVERS, SERVERS, st.text(max_size=20))
def test_a_name_belongs_to_one_server_only(one: str, other: str, own: str) -> None:
    for shown_of, own_of in ((Prefix.name, Prefix.own_name), (Prefix.uri, Prefix.own_uri)):
        shown = shown_of(Prefix(one), own)
        assert own_of(Prefix(one), shown) == own
        assert (own_of(Prefix(other), shown) is None) is (one != other)


def test_a_single_server_keeps_its_names() -> None:
    listing = {"tools": [{"name": "a_b"}], "nextCursor": "c"}
    result = {"contents": [{"uri": "file:///a"}]}
    assert (ALONE.name("a_b"), ALONE.own_name("a_b"), ALONE.own_uri("x+y")) == ("a_b", "a_b", "x+y")
    assert (ALONE.listing(listing), ALONE.result(result)) == (listing, result)


@pytest.mark.parametrize("shown", ["git", "gitx_a", "_a", "GIT_a"])
def test_what_bears_no_prefix_is_nobodys(shown: str) -> None:
    assert GIT.own_name(shown) is None


def test_every_listing_is_renamed_and_nothing_else_of_it() -> None:
    page = {
        "tools": [{"name": "log", "title": "log", "inputSchema": {"name": "log"}}, {"name": 7}, "odd"],
        "prompts": [{"name": "log", "arguments": [{"name": "log"}]}],
        "resources": [{"uri": "file:///a", "name": "a"}],
        "resourceTemplates": [{"uriTemplate": "file:///{p}", "name": "p"}],
        "nextCursor": "log",
        "_meta": {"name": "log"},
    }
    assert GIT_HUB.listing(page) == {
        "tools": [{"name": "git-hub_log", "title": "log", "inputSchema": {"name": "log"}}, {"name": 7}, "odd"],
        "prompts": [{"name": "git-hub_log", "arguments": [{"name": "log"}]}],
        "resources": [{"uri": "git-hub+file:///a", "name": "a"}],
        "resourceTemplates": [{"uriTemplate": "git-hub+file:///{p}", "name": "p"}],
        "nextCursor": "log",
        "_meta": {"name": "log"},
    }
    assert GIT.listing({"tools": "odd"}) == {"tools": "odd"}


def test_resources_in_results_bear_the_uri_that_they_can_be_read_under() -> None:
    text, link = {"type": "text", "text": "file:///a"}, {"type": "resource_link", "uri": "file:///a", "name": "a"}
    embedded = {"type": "resource", "resource": {"uri": "file:///a", "text": "x"}}
    shown = [
        text,
        {**link, "uri": "git+file:///a"},
        {"type": "resource", "resource": {"uri": "git+file:///a", "text": "x"}},
    ]
    assert GIT.result({"content": [text, link, embedded, 7], "structuredContent": {"uri": "file:///a"}}) == {
        "content": [*shown, 7],
        "structuredContent": {"uri": "file:///a"},
    }
    messages = [{"role": "user", "content": embedded}, {"role": "user", "content": [link]}, {"role": "user"}, 7]
    assert GIT.result({"messages": messages}) == {
        "messages": [
            {"role": "user", "content": shown[2]},
            {"role": "user", "content": [shown[1]]},
            {"role": "user"},
            7,
        ]
    }
    assert GIT.result({"contents": [{"uri": "file:///a", "text": "x"}, 7]}) == {
        "contents": [{"uri": "git+file:///a", "text": "x"}, 7]
    }
