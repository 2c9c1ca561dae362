"""People, groups and managers as other directories write them: SCIM 2.0 resources in a JSON file.

Only read, into the same entries as those of a people file; nothing is asked of another server. Nested groups are
counted as if everybody in them were in the outer one too. RFC 7643, sections 4.1, 4.2 and 4.3; RFC 7644, section 3.4.2.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from arap_service.protocol.canonical import InvalidJson, strict_loads

USER: Final = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP: Final = "urn:ietf:params:scim:schemas:core:2.0:Group"
ENTERPRISE: Final = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
Attribute = Literal["userName", "externalId", "id"]
MOST_BYTES: Final = 64 * 1024 * 1024


class ScimInvalid(Exception):
    """The file is no list of SCIM resources that can be used; `problems` holds one line for each fault."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Which attribute becomes the id of a person, and which one the subject that `issuer` knows him by, if any."""

    id_from: Attribute = "userName"
    issuer: str | None = None
    subject_from: Attribute = "id"


def read_scim(path: Path, how: Reading) -> dict[str, Any]:
    """What a people file with the same content would say.

    Raises:
        ScimInvalid, OSError: It cannot be read, or has another form.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ScimInvalid([f"{path}: is larger than {MOST_BYTES} bytes"])
        document = strict_loads(path.read_bytes())
    except InvalidJson:
        raise ScimInvalid([f"{path}: is not valid JSON"]) from None
    resources = list(_resources(document))
    users = [each for each in resources if _is_a(each, USER)]
    groups = [each for each in resources if _is_a(each, GROUP)]
    if not users:
        raise ScimInvalid([f"{path}: holds no user of SCIM 2.0"])
    problems: list[str] = []
    ids = {str(user["id"]): _text(user, how.id_from) for user in users if _text(user, "id")}
    of_user = _groups_by_user(groups)
    people = [
        _person(user, how, ids, of_user.get(str(user.get("id")), frozenset()), problems, where=f"user {number}")
        for number, user in enumerate(users, 1)
    ]
    if problems:
        raise ScimInvalid(problems)
    return {"people": people}


def _resources(document: object) -> Iterator[Mapping[str, Any]]:
    """The resources of one list, or of the lists under `Users` and `Groups`."""
    if isinstance(document, list):
        yield from (each for each in document if isinstance(each, dict))
    elif isinstance(document, dict):
        for name in ("Resources", "Users", "Groups"):
            if name in document:
                yield from _resources(document[name])


def _is_a(resource: Mapping[str, Any], schema: str) -> bool:
    schemas = resource.get("schemas")
    return isinstance(schemas, list) and schema in schemas


def _text(resource: Mapping[str, Any], name: str) -> str | None:
    value = resource.get(name)
    return value.strip() or None if isinstance(value, str) else None


def _groups_by_user(groups: Sequence[Mapping[str, Any]]) -> dict[str, frozenset[str]]:
    by_id = {str(group.get("id")): group for group in groups}
    found: dict[str, set[str]] = {}
    for group in groups:
        title = _text(group, "displayName")
        if title is None:
            continue
        for member in _members(group, by_id):
            found.setdefault(member, set()).add(title)
    return {user: frozenset(titles) for user, titles in found.items()}


def _members(group: Mapping[str, Any], by_id: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The ids of everybody in a group and in the groups within it, however they are within each other."""
    waiting, seen = [group], {str(group.get("id"))}
    while waiting:
        members = waiting.pop().get("members")
        for member in members if isinstance(members, list) else ():
            value = member.get("value") if isinstance(member, dict) else None
            if not isinstance(value, str):
                continue
            if value not in by_id:
                yield value
            elif value not in seen:
                seen.add(value)
                waiting.append(by_id[value])


def _person(
    user: Mapping[str, Any],
    how: Reading,
    ids: Mapping[str, str | None],
    groups: frozenset[str],
    problems: list[str],
    *,
    where: str,
) -> dict[str, Any]:
    person_id = _text(user, how.id_from)
    if person_id is None:
        problems.append(f"{where}: has no {how.id_from} to be known by")
    subject = _text(user, how.subject_from)
    if how.issuer is not None and subject is None:
        problems.append(f"{where}: has no {how.subject_from} that the issuer would know it by")
    manager = _manager(user)
    if manager is not None and ids.get(manager) is None:
        problems.append(f"{where}: its manager is not in the file")
    return {
        "id": person_id or "",
        "name": _name(user) or person_id or "",
        "email": _email(user),
        "active": user.get("active", True) is not False,
        "groups": sorted(groups),
        "identities": [{"iss": how.issuer, "sub": subject}] if how.issuer and subject else [],
        "manager": None if manager is None else ids.get(manager),
    }


def _name(user: Mapping[str, Any]) -> str | None:
    name = user.get("name")
    parts: Mapping[str, Any] = name if isinstance(name, dict) else {}
    whole = " ".join(filter(None, (_text(parts, "givenName"), _text(parts, "familyName"))))
    return (_text(user, "displayName") or _text(parts, "formatted") or whole)[:200] or None


def _email(user: Mapping[str, Any]) -> str | None:
    emails = [each for each in user.get("emails") or () if isinstance(each, dict) and _text(each, "value")]
    chosen = next((each for each in emails if each.get("primary") is True), emails[0] if emails else None)
    return None if chosen is None else _text(chosen, "value")


def _manager(user: Mapping[str, Any]) -> str | None:
    extension = user.get(ENTERPRISE)
    manager = extension.get("manager") if isinstance(extension, dict) else None
    return _text(manager, "value") if isinstance(manager, dict) else None
