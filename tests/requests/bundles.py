"""Bundles for tests: submissions of several things that rest on fresh denials of each, or on one of them all."""

import json
from collections.abc import Mapping
from typing import Any

from arap_service import requests
from arap_service.domain.callers import Caller
from arap_service.evaluation import evaluate
from arap_service.keys import BINDING_TYP, Use
from arap_service.protocol.bundles import bundle_hash
from arap_service.protocol.canonical import bindable_members
from arap_service.requests import Submitted
from arap_service.store import items
from arap_service.store.item_tables import TaskItem
from arap_service.views import RequestDetail
from tests.requests.world import GATE, World, person

CONTEXT: Mapping[str, Any] = {"agent": "bot", "tenant": "acme", "time": "2026-04-30T20:00:00Z"}
ALICE: Mapping[str, Any] = {"type": "user", "id": "alice"}


def asked(resource: str = "wire_transfer", **context: Any) -> dict[str, Any]:
    """A question about a thing that is no tool; members of the context can be given."""
    return {
        "subject": dict(ALICE),
        "resource": {"type": "account", "id": resource},
        "action": {"name": "open"},
        "context": {**CONTEXT, **context},
    }


async def denied(world: World, question: Mapping[str, Any], *, caller: Caller = GATE) -> dict[str, Any]:
    """One item: resource, action and a denial of its own."""
    context = (await evaluate(world.ctx, caller, question))["context"]
    offer = context["access_request"]
    denial = {
        "evaluation_id": context["evaluation_id"],
        "expires_at": offer["expires_at"],
        "binding_token": offer["binding_token"],
    }
    return {"resource": question["resource"], "action": question["action"], "denial": denial}


async def body_of(
    world: World, *resources: str, context: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A submission of these things, each denied just now."""
    questions = [asked(resource, **(context or {})) for resource in resources]
    listed = [await denied(world, question) for question in questions]
    return {"subject": dict(ALICE), "items": listed, "context": questions[0]["context"], **more}


def covering(world: World, body: Mapping[str, Any], **claims: Any) -> dict[str, Any]:
    """The denial of the whole of `body`, as a decision point that issues such would sign it."""
    pairs = [(item["resource"], item["action"]) for item in body["items"]]
    members = bindable_members(body["context"])
    whole = {
        **world.claims({**asked(), "context": body["context"]}),
        "binding_hash": bundle_hash(body["subject"], pairs, body["context"], members),
        **claims,
    }
    return {
        "binding_token": world.ctx.keys.sign(Use.BINDING, whole, BINDING_TYP),
        "expires_at": whole["denial_expires_at"],
    }


async def submit(world: World, body: Mapping[str, Any], *, key: str | None = None) -> Submitted:
    """Submit `body` as the gate."""
    return await requests.submit(world.ctx, GATE, json.dumps(body).encode(), idempotency_key=key)


async def bundle(world: World, *resources: str, **more: Any) -> str:
    """The id of a fresh request for these things."""
    return str((await submit(world, await body_of(world, *resources, **more))).task["id"])


async def decide(
    world: World, task_id: str, item: int, who: str | Caller = "ann", decision: str = "approve", **more: Any
) -> RequestDetail:
    """Decide one item as a person who has seen its current version."""
    caller = person(who) if isinstance(who, str) else who
    given: dict[str, Any] = {"version": (await rows(world, task_id))[item - 1].version, "decision": decision, **more}
    if decision == "deny":
        given.setdefault("reason", "Not like this.")
    return await requests.decide(world.ctx, caller, task_id, item=item, **given)


async def rows(world: World, task_id: str) -> list[TaskItem]:
    """The items of a task as stored."""
    return await world.ctx.database.read(lambda session: list(items.items_of(session, [task_id])))


async def handle(world: World, task_id: str) -> dict[str, Any]:
    """The task as the gate reads it."""
    answer = await requests.status(world.ctx, GATE, task_id)
    assert set(answer) == {"task"}  # never a result that could be taken for that of an item
    task: dict[str, Any] = answer["task"]
    return task


async def statuses(world: World, task_id: str) -> list[str]:
    """The status of the whole and of each item."""
    task = await handle(world, task_id)
    return [task["status"], *(item["status"] for item in task["items"])]
