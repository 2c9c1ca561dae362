"""Standing rules: proposed from a decided request, confirmed by another person, a voice for a while, ended at once."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from arap_service import audit, requests
from arap_service.domain.callers import Scope
from arap_service.domain.errors import (
    ArapError,
    Forbidden,
    IneligibleApprover,
    InputInvalid,
    InvalidRequest,
    InvalidTaskState,
    NotFound,
    StepUpRequired,
    UnknownTask,
)
from arap_service.requests.delegations import Wanted, delegate
from arap_service.requests.standing_rules import RuleView, confirm_rule, end_rule, list_rules, propose_rule
from arap_service.store.database import WriteSession
from arap_service.store.directory import add_identity
from arap_service.store.people_tables import Membership, Person
from tests.clock import START
from tests.requests.world import DESK, GATE, READER, World, machine, person, question

pytestmark = pytest.mark.anyio
ADMIN = frozenset({Scope.ADMIN, Scope.APPROVAL_READ, Scope.APPROVAL_RESOLVE})
MO = person("mo", scopes=ADMIN)


async def approved(world: World, resource: str = "plain", **context: Any) -> str:
    asked = question(resource, **context)
    task_id = str((await world.submit(await world.body(asked))).task["id"])
    await world.decide(task_id, "ann")
    if await world.status(task_id) == "pending":
        await world.decide(task_id, "bob")
    return task_id


async def in_force(
    world: World, resource: str = "plain", *, may_vary: tuple[str, ...] = (), **context: Any
) -> RuleView:
    proposed = await propose_rule(
        world.ctx, person("ann"), await approved(world, resource, **context), may_vary=may_vary
    )
    return await confirm_rule(world.ctx, MO, proposed.id)


async def asked_again(world: World, resource: str = "plain", *, subject: str = "alice", **context: Any) -> str:
    """The status of a fresh request right after its submission."""
    body = await world.body(question(resource, subject=subject, **context))
    return str((await world.submit(body)).task["status"])


async def test_rule_approves_the_same_request_once_an_administrator_has_confirmed_it(terms: World) -> None:
    task_id = await approved(terms)
    proposed = await propose_rule(terms.ctx, person("ann"), task_id)
    assert (proposed.status, proposed.expires_at, await asked_again(terms)) == ("proposed", None, "pending")
    rule = await confirm_rule(terms.ctx, MO, proposed.id)
    assert (rule.status, rule.proposed_by, rule.confirmed_by) == ("active", "Ann Treasurer", "Mo Board")
    assert rule.expires_at == START + timedelta(days=10)
    submitted = await terms.submit(await terms.body(question("plain")))
    assert (submitted.task["status"], submitted.status_code) == ("approved", 201)
    detail = await requests.detail(terms.ctx, READER, str(submitted.task["id"]))
    assert [(vote.voter, vote.kind, vote.decision) for vote in detail.votes] == [(rule.id, "evaluator", "approve")]
    assert "evaluator_heard" in await terms.kinds(str(submitted.task["id"]))
    [listed] = (await list_rules(terms.ctx, READER)).items
    assert (listed.uses, listed.last_used_at) == (1, START)


@pytest.mark.parametrize(
    ("other", "status"),
    [
        ({"arguments": {"amount": 50000, "to": "X"}}, "denied"),
        ({"arguments": {"amount": 1, "to": "DE1"}}, "pending"),
        ({"subject": "bob"}, "pending"),
        ({"agent": "other-bot"}, "pending"),
        ({"more": 1}, "pending"),
        ({}, "approved"),
    ],
)
async def test_only_the_same_is_covered_and_rules_that_deny_or_hold_win(
    terms: World, other: dict[str, Any], status: str
) -> None:
    await in_force(terms)
    assert await asked_again(terms, **other) == status
    [rule] = (await list_rules(terms.ctx, READER)).items
    assert rule.uses == (status == "approved")


async def test_voice_of_the_file_that_holds_wins(terms: World) -> None:
    await in_force(terms, rush=True)
    assert await asked_again(terms, rush=True) == "pending"
    assert (await list_rules(terms.ctx, READER)).items[0].uses == 0


async def test_file_that_denies_by_now_wins(terms: World) -> None:
    await in_force(terms)
    policy = terms.ctx.settings.policy_path
    policy.write_text(policy.read_text(encoding="utf-8").replace('== "X"', '== "DE1"'), encoding="utf-8")
    assert terms.ctx.policy.refresh()
    assert await asked_again(terms) == "denied"
    assert (await list_rules(terms.ctx, READER)).items[0].uses == 0


async def test_rule_that_lets_members_vary_keeps_the_bound_of_the_template(terms: World) -> None:
    rule = await in_force(terms, "pay", may_vary=("/context/arguments_hash",))
    assert rule.may_vary == ("/context/arguments_hash",)
    assert await asked_again(terms, "pay", arguments={"amount": 7, "to": "DE9"}) == "approved"
    assert await asked_again(terms, "pay", arguments={"amount": 50001, "to": "DE9"}) == "pending"
    assert await asked_again(terms, "pay", cost_centre="8", arguments={"amount": 8}) == "pending"


async def test_rule_is_no_wider_than_what_was_approved(terms: World) -> None:
    task_id = await terms.pending("pay")
    await terms.decide(task_id, "ann", may_vary=["/context/cost_centre"])
    await terms.decide(task_id, "bob")
    with pytest.raises(InputInvalid) as refused:
        await propose_rule(terms.ctx, person("ann"), task_id, may_vary=("/context/arguments_hash",))
    assert refused.value.extra["errors"] == [{"pointer": "/may_vary/0", "code": "not_allowed"}]
    assert (await propose_rule(terms.ctx, person("ann"), task_id, may_vary=("/context/cost_centre",))).may_vary


async def test_another_client_is_not_served(terms: World) -> None:
    await in_force(terms)
    other = machine("gate-2")
    policy = terms.ctx.settings.policy_path
    text = policy.read_text(encoding="utf-8").replace("clients:\n", "clients:\n  - {client: gate-2, may: 'true'}\n")
    policy.write_text(text, encoding="utf-8")
    assert terms.ctx.policy.refresh()
    submitted = await terms.submit(await terms.body(question("plain"), caller=other), caller=other)
    assert submitted.task["status"] == "pending"
    assert await asked_again(terms) == "approved"  # rules outlive a reload of the file


async def test_rule_ends_at_once_and_by_itself(terms: World) -> None:
    rule = await in_force(terms)
    assert (await end_rule(terms.ctx, person("ann"), rule.id)).status == "ended"
    assert await asked_again(terms) == "pending"
    with pytest.raises(InvalidTaskState):
        await end_rule(terms.ctx, MO, rule.id)
    with pytest.raises(InvalidTaskState):
        await confirm_rule(terms.ctx, MO, rule.id)
    terms.clock.advance(1)
    again = await in_force(terms, arguments={"amount": 3})
    terms.clock.advance(86400 * 10)
    assert await asked_again(terms, arguments={"amount": 3}) == "pending"
    assert [(each.id, each.status) for each in (await list_rules(terms.ctx, MO)).items] == [
        (again.id, "expired"), (rule.id, "ended"),
    ]  # fmt: skip
    assert [each.id for each in (await list_rules(terms.ctx, MO, status="expired")).items] == [again.id]


async def test_file_that_allows_less_by_now_shortens_rules_that_were_confirmed_before(terms: World) -> None:
    await in_force(terms)
    policy = terms.ctx.settings.policy_path
    policy.write_text(policy.read_text(encoding="utf-8").replace("standing_days: 10", "standing_days: 1"), "utf-8")
    assert terms.ctx.policy.refresh()
    assert await asked_again(terms) == "approved"
    terms.clock.advance(86400)
    assert await asked_again(terms) == "pending"


async def test_nothing_stands_for_an_emergency(terms: World) -> None:
    """A rule for the template decides its requests, but for those that are decided by whoever is on call."""
    asked = question("unlock", arguments={"to": "DE7"})
    plain = await terms.submit(await terms.body(asked))
    assert plain.task["status"] == "approved"
    proposed = await propose_rule(terms.ctx, person("ann"), str(plain.task["id"]))
    await confirm_rule(terms.ctx, MO, proposed.id)
    urgent = {"emergency": True, "business_justification": "The vault is on fire."}
    assert (await terms.submit(await terms.body(asked, requested_access=urgent))).task["status"] == "pending"


@pytest.mark.parametrize(
    ("who", "code"),
    [
        (person("ann", scopes=ADMIN), "same_person"),
        (person("alice", scopes=ADMIN), "is_subject"),
        (machine("gate", "admin"), "is_submitter"),
    ],
)
async def test_confirming_takes_somebody_else_who_is_not_served(terms: World, who: Any, code: str) -> None:
    proposed = await propose_rule(terms.ctx, person("ann"), await approved(terms))
    with pytest.raises(IneligibleApprover) as refused:
        await confirm_rule(terms.ctx, who, proposed.id)
    assert refused.value.extra["code"] == code
    assert (await list_rules(terms.ctx, MO)).items[0].status == "proposed"
    entries = await terms.ctx.database.read(lambda session: audit.entries_of(session, "standing_rules"))
    assert [entry.kind for entry in entries] == ["rule_proposed", "rule_refused"]
    for reviewer in (person("mo"), READER, GATE):
        with pytest.raises(Forbidden):
            await confirm_rule(terms.ctx, reviewer, proposed.id)


async def test_proposing_takes_a_reviewer_of_an_approved_request(terms: World) -> None:
    task_id = await approved(terms)
    pending, denied = await terms.pending("plain"), await terms.pending("plain")
    await terms.decide(denied, "ann", "deny")
    cases: list[tuple[Any, str, dict[str, Any], type[ArapError]]] = [
        (person("ann"), pending, {}, InvalidTaskState),
        (person("ann"), denied, {}, InvalidTaskState),
        (person("alice"), task_id, {}, IneligibleApprover),
        (person("lea"), task_id, {}, IneligibleApprover),
        (READER, task_id, {}, Forbidden),
        (GATE, task_id, {}, UnknownTask),
        (person("ann"), "task_unknown", {}, UnknownTask),
        (person("ann"), task_id, {"item": 1}, InvalidRequest),
        (person("ann"), task_id, {"days": 11}, InputInvalid),
        (person("ann"), task_id, {"days": 0}, InputInvalid),
        (person("ann"), task_id, {"may_vary": ["/resource/id"]}, InputInvalid),
        (person("ann"), await approved(terms, "silent"), {}, InvalidRequest),
    ]
    for who, about, options, kind in cases:
        with pytest.raises(kind):
            await propose_rule(terms.ctx, who, about, **options)
    assert (await list_rules(terms.ctx, READER)).items == ()


@pytest.mark.requirement("ARS-115")
async def test_a_deputy_proposes_nothing_in_the_place_of_whom_it_would_serve(terms: World) -> None:
    task_id = await approved(terms)
    for who in ("alice", "ann"):
        while_away = Wanted(person_id=who, deputy_id="zoe", starts_at=START, ends_at=START + timedelta(days=1))
        if who == "ann":
            with pytest.raises(IneligibleApprover) as refused:
                await propose_rule(terms.ctx, person("zoe"), task_id)
            assert refused.value.extra["code"] == "not_assigned"
            assert (await requests.detail(terms.ctx, person("zoe"), task_id)).standing_days == 0
        await delegate(terms.ctx, person(who), while_away)
    assert (await requests.detail(terms.ctx, person("zoe"), task_id)).standing_days == 10
    assert (await propose_rule(terms.ctx, person("zoe"), task_id)).proposed_by == "Zoe Nobody"


@pytest.mark.requirement("ARS-115")
@pytest.mark.parametrize("maker", ["ann", "mo"])
async def test_rule_serves_neither_who_proposed_nor_who_confirmed_it(terms: World, maker: str) -> None:
    """As a submitter whom the rule does not name, and as the subject once both turn out to be one person."""
    await in_force(terms)
    his = machine("gate", iss=DESK, sub=maker)
    assert (await terms.submit(await terms.body(question("plain"), caller=his), caller=his)).task["status"] == "pending"
    assert await asked_again(terms) == "approved"
    await terms.ctx.database.write(lambda session: add_identity(session, maker, iss="https://id.example", sub="alice"))
    assert await asked_again(terms) == "pending"


async def test_approval_that_was_taken_back_becomes_no_rule(terms: World) -> None:
    task_id = await approved(terms)
    approval = (await requests.detail(terms.ctx, READER, task_id)).approval
    assert approval is not None
    shown = await requests.revoke(terms.ctx, person("ann"), approval.id, reason="a mistake")
    assert shown.standing_days == 0
    with pytest.raises(InvalidTaskState):
        await propose_rule(terms.ctx, person("ann"), task_id)


async def test_rule_takes_as_fresh_a_log_in_as_the_decisions_that_it_stands_for(terms: World) -> None:
    policy = terms.ctx.settings.policy_path
    text = policy.read_text(encoding="utf-8").replace("standing_days: 10", "standing_days: 10\n    step_up: 120")
    policy.write_text(text, encoding="utf-8")
    assert terms.ctx.policy.refresh()
    ann, mo = person("ann", proved_at=START), person("mo", scopes=ADMIN, proved_at=START)
    task_id = await terms.pending("plain")
    await terms.decide(task_id, ann)
    terms.clock.advance(121)
    with pytest.raises(StepUpRequired):
        await propose_rule(terms.ctx, ann, task_id)
    now = terms.ctx.clock()
    rule = await propose_rule(terms.ctx, person("ann", proved_at=now), task_id)
    with pytest.raises(StepUpRequired):
        await confirm_rule(terms.ctx, mo, rule.id)
    assert [each.status for each in (await list_rules(terms.ctx, READER)).items] == ["proposed"]
    assert (await confirm_rule(terms.ctx, person("mo", scopes=ADMIN, proved_at=now), rule.id)).status == "active"


async def test_who_may_neither_read_nor_end_learns_nothing(terms: World) -> None:
    rule = await in_force(terms)
    with pytest.raises(Forbidden):
        await list_rules(terms.ctx, GATE)
    for who, name in ((person("bob"), rule.id), (READER, rule.id), (MO, "rule_unknown")):
        with pytest.raises(NotFound):
            await end_rule(terms.ctx, who, name)
    with pytest.raises(NotFound):
        await confirm_rule(terms.ctx, MO, "rule_unknown")
    assert (await list_rules(terms.ctx, READER)).items[0].status == "active"


async def test_lists_go_on_where_the_last_one_ended(terms: World) -> None:
    made = []
    for amount in range(3):
        task_id = await approved(terms, arguments={"amount": amount})
        made.append((await propose_rule(terms.ctx, person("ann"), task_id, days=amount + 1)).id)
        terms.clock.advance(1)
    first = await list_rules(terms.ctx, MO, status="proposed", limit=2)
    rest = await list_rules(terms.ctx, MO, status="proposed", after=first.next_cursor)
    assert [rule.id for rule in (*first.items, *rest.items)] == made[::-1]
    assert (rest.next_cursor, [rule.days for rule in rest.items]) == (None, [1])
    assert (await list_rules(terms.ctx, MO, status="active")).items == ()
    with pytest.raises(InvalidRequest):
        await list_rules(terms.ctx, MO, after="nonsense")


def left(person_id: str, group: str) -> Callable[[WriteSession], None]:
    """Somebody is no longer in a group."""
    return lambda session: session.delete(session.get_one(Membership, (person_id, group, "local")))


def gone(person_id: str, _: str) -> Callable[[WriteSession], None]:
    """Somebody has been deactivated."""
    return lambda session: setattr(session.get_one(Person, person_id), "active", False)


@pytest.mark.parametrize("how", [left, gone])
@pytest.mark.parametrize(("maker", "group", "said"), [("ann", "treasury", "proposer"), ("mo", "board", "confirmer")])
async def test_rule_is_silent_while_one_of_its_makers_could_not_make_it_again(
    terms: World, how: Callable[[str, str], Callable[[WriteSession], None]], maker: str, group: str, said: str
) -> None:
    """It comes back with him, if it has not run out by then, and nothing of it was counted meanwhile."""
    rule = await in_force(terms)
    assert rule.suspended is None
    await terms.ctx.database.write(how(maker, group))
    assert await asked_again(terms) == "pending"
    [listed] = (await list_rules(terms.ctx, READER)).items
    assert (listed.status, listed.suspended, listed.uses) == ("active", said, 0)

    def back(session: WriteSession) -> None:
        session.get_one(Person, maker).active = True
        session.merge(Membership(person_id=maker, group_name=group))

    await terms.ctx.database.write(back)
    assert await asked_again(terms) == "approved"
    assert (await list_rules(terms.ctx, READER)).items[0].suspended is None


async def test_rule_of_a_deputy_is_silent_once_he_is_none_any_more(terms: World) -> None:
    task_id = await approved(terms)
    while_away = Wanted(person_id="ann", deputy_id="zoe", starts_at=START, ends_at=START + timedelta(days=1))
    await delegate(terms.ctx, person("ann"), while_away)
    proposed = await propose_rule(terms.ctx, person("zoe"), task_id)
    await confirm_rule(terms.ctx, MO, proposed.id)
    assert await asked_again(terms) == "approved"
    terms.clock.advance(86_401)
    assert await asked_again(terms) == "pending"
    assert (await list_rules(terms.ctx, READER)).items[0].suspended == "proposer"


async def test_who_is_named_by_a_relation_or_an_expression_stands_behind_a_rule_while_he_is(terms: World) -> None:
    policy = terms.ctx.settings.policy_path
    rule = await in_force(terms)

    def named(step: str) -> None:
        text = policy.read_text(encoding="utf-8")
        now = re.sub(r"(  plain:\n(?:    .*\n)*?    steps: ).*", lambda found: f"{found[1]}[{step}]", text)
        policy.write_text(now, encoding="utf-8")
        assert terms.ctx.policy.refresh()

    for step, status, suspended in (
        ('{id: plain, title: P, who: \'person.id == "ann" && subject.id == "alice"\'}', "approved", None),
        ('{id: plain, title: P, who: \'person.id == "ann" && subject.id == "bob"\'}', "pending", None),
        ("{id: plain, title: P, relations: [{of: subject, is: manager}]}", "pending", None),
        ("{id: plain, title: P, people: [bob]}", "pending", "proposer"),
        ("{id: plain, title: P, people: [ann]}", "approved", None),
    ):
        named(step)
        assert await asked_again(terms) == status, step
        [listed] = (await list_rules(terms.ctx, READER)).items
        assert (listed.id, listed.suspended) == (rule.id, suspended), step


@pytest.mark.parametrize(
    ("client_id", "suspended"), [("operator", None), ("resolver", "confirmer"), ("who", "confirmer")]
)
async def test_a_client_that_confirmed_has_to_have_its_right_still(
    terms: World, client_id: str, suspended: str | None
) -> None:
    """Those of the built-in issuer stand in the configuration; `operator` has it there and the others have not."""
    proposed = await propose_rule(terms.ctx, person("ann"), await approved(terms))
    await confirm_rule(terms.ctx, machine(client_id, "admin"), proposed.id)
    assert await asked_again(terms) == ("approved" if suspended is None else "pending")
    assert (await list_rules(terms.ctx, READER)).items[0].suspended == suspended


async def test_an_administrator_by_token_is_judged_by_what_is_known_of_him_here(terms: World) -> None:
    proposed = await propose_rule(terms.ctx, person("ann"), await approved(terms))
    await confirm_rule(terms.ctx, person("lea", scopes=ADMIN, channel="api"), proposed.id)
    assert await asked_again(terms) == "approved"
    await terms.ctx.database.write(gone("lea", ""))
    assert await asked_again(terms) == "pending"
