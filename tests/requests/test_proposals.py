"""Counter-proposals: told to the requester whole, sealed, and nothing that was bound changes by one."""

import json
from typing import Any, Final

import pytest
from sqlmodel import select

from arap_service import requests
from arap_service.domain.errors import ArapError, InputInvalid, InvalidRequest, UnknownTask
from arap_service.domain.revealing import told
from arap_service.protocol.canonical import TOOL_CALL
from arap_service.store.tables import Vote
from tests.requests.world import GATE, World, person, question

pytestmark = pytest.mark.anyio
# A tool wrote it, and whoever applied it would be busy for years, and the whole process with him.
ENDLESS: Final[dict[str, Any]] = {
    "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)} | {"d40": True},
    "$ref": "#/$defs/d0",
}
ASKED: dict[str, Any] = {"amount": 900, "to": {"iban": "DE1", "pin": "4711"}, "tags": ["a", "b"], "dry": False}
OTHER: dict[str, Any] = {"amount": 90, "to": {"iban": "DE1 canary"}, "tags": [], "note": "\u202eodd\n"}


async def plain(world: World, resource: str = "plain") -> str:
    return str((await world.submit(await world.body(question(resource, arguments=ASKED)))).task["id"])


async def test_denial_tells_the_requester_other_arguments_whole(terms: World) -> None:
    task_id = await plain(terms)
    before = await terms.task(task_id)
    detail = await terms.decide(task_id, "ann", "deny", reason="too much", proposed_arguments=OTHER)
    answer = (await requests.status(terms.ctx, GATE, task_id))["task"]
    assert answer["display"] == {"urn:x-arap:decision": {"reason": "too much", "proposed_arguments": OTHER}}
    after = await terms.task(task_id)
    assert (after.binding_hash, after.arguments_hash, after.tuple_sealed, after.request_sealed) == (
        before.binding_hash, before.arguments_hash, before.tuple_sealed, before.request_sealed,
    )  # fmt: skip
    [vote] = detail.votes
    assert {value.pointer: value.text for value in vote.proposed}["/amount"] == "90"


async def test_proposal_is_sealed_wherever_it_is_kept(terms: World) -> None:
    task_id = await plain(terms)
    await terms.decide(task_id, "ann", "deny", proposed_arguments=OTHER)
    [vote] = await terms.ctx.database.read(lambda session: list(session.exec(select(Vote))))
    task = await terms.task(task_id)
    assert b"canary" not in (vote.proposed_sealed or b"canary") + (task.decision_sealed or b"canary")
    assert all("canary" not in entry.detail for entry in await terms.audit(task_id))


@pytest.mark.parametrize(
    ("resource", "decision", "proposed", "kind"),
    [
        ("plain", "approve", OTHER, InvalidRequest),
        ("silent", "deny", OTHER, InvalidRequest),
        ("plain", "deny", ASKED, InputInvalid),
        ("plain", "deny", {"amount": 2**60}, InvalidRequest),
        ("plain", "deny", {"text": "\ud800"}, InvalidRequest),
        ("plain", "deny", {"text": "x" * 65_536}, InvalidRequest),
        ("plain", "deny", json.loads('{"a":' * 70 + "1" + "}" * 70), InvalidRequest),
    ],
)
async def test_proposal_that_is_none_decides_nothing(
    terms: World, resource: str, decision: str, proposed: dict[str, Any], kind: type[ArapError]
) -> None:
    task_id = await plain(terms, resource)
    with pytest.raises(kind):
        await terms.decide(task_id, "ann", decision, proposed_arguments=proposed)
    assert (await terms.version(task_id), await terms.kinds(task_id)) == (1, ["task_submitted"])


async def test_request_that_calls_nothing_takes_no_proposal(terms: World) -> None:
    asked = {**question("plain"), "resource": {"type": "dataset", "id": "sales"}, "context": {"agent": "bot"}}
    task_id = str((await terms.submit(await terms.body(asked))).task["id"])
    assert not (await requests.detail(terms.ctx, person("ann"), task_id)).may_propose
    with pytest.raises(InvalidRequest):
        await terms.decide(task_id, "ann", "deny", proposed_arguments=OTHER)


async def test_changed_values_keep_their_kind_and_secrets_stay_out(terms: World) -> None:
    task_id = await plain(terms)
    changes = {"/amount": "90", "/to/iban": "7", "/tags/1": "c", "/dry": "Yes"}
    amended = await requests.amended(terms.ctx, person("ann"), task_id, changes)
    assert amended == {"amount": 90, "to": {"iban": "7"}, "tags": ["a", "c"], "dry": True}
    assert await terms.version(task_id) == 1


@pytest.mark.parametrize(
    "changes",
    [{"/amount": "ninety"}, {"/amount": "true"}, {"/amount": "[1]"}, {"/amount": "[" * 50_000},
     {"/to/pin": "1"}, {"/new": "1"}, {"/dry": "1"},
     {"/tags/7": "x"}, {"/amount/x": "1"}],
)  # fmt: skip
async def test_change_of_another_kind_or_of_nothing_shown_is_refused(terms: World, changes: dict[str, str]) -> None:
    with pytest.raises(InputInvalid):
        await requests.amended(terms.ctx, person("ann"), await plain(terms), changes)


async def test_whoever_may_not_see_a_request_learns_none_of_its_arguments(terms: World) -> None:
    stranger = person("zoe", scopes=frozenset())
    for task_id in (await plain(terms), "task_unknown"):
        with pytest.raises(UnknownTask):
            await requests.amended(terms.ctx, stranger, task_id, {})


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        ("whole", {"a": {"b": 1, "c": 2}, "l": [1, 2], "e": {}}),
        (["/a/b", "/l/0"], {"a": {"b": 1}}),
        (["/l"], {"l": [1, 2]}),
        ([], {}),
    ],
)
def test_what_is_told_lacks_secrets_and_what_is_hidden(allowed: Any, expected: dict[str, Any]) -> None:
    value = {"a": {"b": 1, "c": 2, "pin": 3}, "l": [1, 2], "pin": {"x": 1}, "e": {}}
    assert told(value, allowed=allowed, mask=["pin"]) == expected


async def test_a_proposal_that_the_tool_would_not_take_is_refused_where_its_schema_is_known(terms: World) -> None:
    """Only what was proposed is judged: what is missing may be what the reviewer was not shown."""
    asked = question("plain")
    schema = {"properties": {"amount": {"maximum": 10}, "to": {"pattern": "^DE"}}, "required": ["amount", "pin"]}
    asked["context"][TOOL_CALL]["input_schema"] = schema
    task_id = str((await terms.submit(await terms.body(asked))).task["id"])
    with pytest.raises(InputInvalid) as refused:
        await terms.decide(task_id, "ann", "deny", proposed_arguments={"amount": 11, "to": "FR1"})
    assert sorted((each["pointer"], each["code"]) for each in refused.value.extra["errors"]) == [
        ("/proposed_arguments/amount", "maximum"),
        ("/proposed_arguments/to", "pattern"),
    ]
    assert (await terms.task(task_id)).status == "pending"
    assert (await terms.decide(task_id, "ann", "deny", proposed_arguments={"amount": 9})).status == "denied"


@pytest.mark.parametrize("schema", [{"type": 7}, {"$ref": "https://schemas.example/x"}, ENDLESS, "no schema", None])
async def test_a_schema_that_is_none_refuses_nothing(terms: World, schema: object) -> None:
    asked = question("plain")
    asked["context"][TOOL_CALL]["input_schema"] = schema
    task_id = str((await terms.submit(await terms.body(asked))).task["id"])
    assert (await terms.decide(task_id, "ann", "deny", proposed_arguments=OTHER)).status == "denied"
