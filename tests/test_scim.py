"""Users and groups of SCIM 2.0 as people; RFC 7643, with the enterprise extension's manager."""

import json
from pathlib import Path
from typing import Any

import pytest

from arap_service.directory import DirectoryInvalid, Principal, read_people
from arap_service.scim import ENTERPRISE, GROUP, USER, Reading

ISSUER = "https://login.example"
LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"


def user(number: str, user_name: str, **more: Any) -> dict[str, Any]:
    return {"schemas": [USER], "id": number, "userName": user_name, **more}


def group(number: str, title: str, *members: str) -> dict[str, Any]:
    return {"schemas": [GROUP], "id": number, "displayName": title, "members": [{"value": each} for each in members]}


def written(folder: Path, document: object) -> Path:
    path = folder / "people.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


GRACE = user(
    "2819c223",
    "grace",
    externalId="e-1",
    name={"givenName": "Grace", "familyName": "Hopper"},
    emails=[{"value": "private@example.com"}, {"value": "grace@example.com", "primary": True}],
    **{ENTERPRISE: {"manager": {"value": "902c246b", "displayName": "somebody"}}},
)
KIM = user("902c246b", "kim", displayName="Kim Lee", active=False)


@pytest.mark.parametrize(
    "document",
    [
        {"schemas": [LIST], "Resources": [GRACE, KIM, group("g", "t", "2819c223")]},
        {"Users": [GRACE, KIM], "Groups": [group("g", "t", "2819c223")]},
        {"Users": {"Resources": [GRACE, KIM]}, "Groups": {"Resources": [group("g", "t", "2819c223")]}},
        [GRACE, KIM, group("g", "t", "2819c223")],
    ],
    ids=["list response", "two lists", "two list responses", "plain list"],
)  # fmt: skip
def test_users_groups_and_managers_become_people(tmp_path: Path, document: object) -> None:
    grace, kim = read_people(written(tmp_path, document), Reading(issuer=ISSUER)).people
    assert (grace.id, grace.name, grace.email, grace.active) == ("grace", "Grace Hopper", "grace@example.com", True)
    assert (grace.groups, grace.manager) == (frozenset({"t"}), "kim")
    assert grace.identities == (Principal(iss=ISSUER, sub="2819c223"),)
    assert (kim.name, kim.active, kim.manager, kim.groups) == ("Kim Lee", False, None, frozenset())


def test_other_attributes_may_name_the_person_and_the_subject(tmp_path: Path) -> None:
    how = Reading(id_from="externalId", issuer=ISSUER, subject_from="userName")
    [person] = read_people(written(tmp_path, [{**GRACE, ENTERPRISE: {}}]), how).people
    assert (person.id, person.identities) == ("e-1", (Principal(iss=ISSUER, sub="grace"),))


def test_without_an_issuer_nobody_is_given_an_identity(tmp_path: Path) -> None:
    [person] = read_people(written(tmp_path, [KIM])).people
    assert person.identities == ()


def test_nested_groups_count_for_everybody_in_them_even_in_a_ring(tmp_path: Path) -> None:
    document = [KIM, group("inner", "inner", "902c246b", "outer"), group("outer", "outer", "inner")]
    [person] = read_people(written(tmp_path, document)).people
    assert person.groups == {"inner", "outer"}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"Resources": []}, "holds no user"),
        ("text", "holds no user"),
        ([{"schemas": ["other"], "id": "1", "userName": "x"}], "holds no user"),
        ([user("1", "")], "user 1: has no userName"),
        ([user("1", "x y")], "people.0.id"),
        ([user("1", "x", **{ENTERPRISE: {"manager": {"value": "gone"}}})], "its manager is not in the file"),
        ([user("", "x")], "has no id that the issuer"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_place(tmp_path: Path, document: object, problem: str) -> None:
    with pytest.raises(DirectoryInvalid, match=problem):
        read_people(written(tmp_path, document), Reading(issuer=ISSUER))


@pytest.mark.parametrize("text", ["{", '{"Users": [], "Users": []}', "NaN"])
def test_what_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "people.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DirectoryInvalid, match="not valid JSON"):
        read_people(path)


@pytest.mark.parametrize("odd", [None, 7, "x", [], [7], [{}]])
def test_members_of_a_strange_kind_are_passed_over(tmp_path: Path, odd: object) -> None:
    odd_user = {**KIM, "emails": odd if isinstance(odd, list) else [], "name": odd, ENTERPRISE: odd}
    [person] = read_people(written(tmp_path, [odd_user, {**group("g", "t"), "members": odd}, odd])).people
    assert (person.id, person.groups, person.email) == ("kim", frozenset(), None)
