"""The page that a denial names: from the denial through what is filled in to the reviewer (ARS-105 to ARS-109)."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import anyio
import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import update
from sqlmodel import select

from arap_service.context import Context
from arap_service.protocol.canonical import TOOL_CALL, arguments_hash
from arap_service.records import Part, task_seal, tuple_of
from arap_service.store.database import ReadSession
from arap_service.store.form_tables import FilledForm
from arap_service.store.tables import AuditEntry, Task
from arap_service.workers import DENIAL_GRACE, purge_due
from tests.clock import FakeClock
from tests.pdp import change_rules
from tests.service import IDENTIFIER, bearer, http
from tests.web.desk import Browser, add_person

pytestmark = pytest.mark.anyio
GRANTS: Final = ({"type": "role", "id": "grant_role"}, {"type": "account", "id": "grant_role"})
SECRET: Final = "canary-4f71 because of the audit"
TICKET: Final = "&lt;b&gt;Ticket&lt;/b&gt;"
_FIELD: Final = re.compile(r'<label for="(f\d+)">([^<]*)')
_OPTION: Final = re.compile(r'<option value="([^"]*)"[^>]*>([^<]*)</option>')


def call(role: str = "reader", *, subject: str = "ada", **context: Any) -> dict[str, Any]:
    """A call that needs a form."""
    arguments = {"role": role}
    shown = {"server": "git", "tool": "grant_role", "arguments": arguments}
    return {
        "subject": {"type": "user", "id": subject},
        "resource": {"type": "tool", "id": "grant_role"},
        "action": {"name": "tools/call"},
        "context": {"arguments_hash": arguments_hash(arguments), "server": "git", TOOL_CALL: shown, **context},
    }


@pytest.fixture
async def gate(app: FastAPI, context: Context) -> AsyncIterator[httpx2.AsyncClient]:
    """An enforcement point."""
    async with http(app, headers=bearer(context, "gate")) as client:
        yield client


@pytest.fixture
async def ada(app: FastAPI) -> AsyncIterator[Browser]:
    """The browser of the person who was denied."""
    hers = Browser(app)
    assert (await hers.log_in("ada")).status_code == 303
    yield hers
    await hers.client.aclose()


async def deny(gate: httpx2.AsyncClient, about: Mapping[str, Any]) -> dict[str, Any]:
    """What the decision says of the denial."""
    told: dict[str, Any] = (await gate.post("/access/v1/evaluation", json=about)).json()
    assert told["decision"] is False, told
    context: dict[str, Any] = told["context"]
    return context


def page_of(denied: Mapping[str, Any]) -> str:
    """The path of the page that the denial names."""
    url = str(denied["access_request"]["form_url"])
    assert url.startswith(IDENTIFIER + "/desk/forms/")
    return url.removeprefix(IDENTIFIER)


def echo(denied: Mapping[str, Any]) -> dict[str, str]:
    """The denial as a submission names it."""
    offer = denied["access_request"]
    binding = {"binding_token": offer["binding_token"], "expires_at": offer["expires_at"]}
    return {"evaluation_id": str(denied["evaluation_id"]), **binding}


async def request(
    gate: httpx2.AsyncClient, about: Mapping[str, Any], denied: Mapping[str, Any], **more: Any
) -> httpx2.Response:
    """A submission that states nothing but what is given."""
    return await gate.post("/access/v1/request", json={**about, "denial": echo(denied), **more})


def named(page: httpx2.Response, title: str) -> str:
    """The name of the field with this label."""
    return next(str(name) for name, label in _FIELD.findall(page.text) if label.strip() == title)


def chosen(page: httpx2.Response, label: str) -> str:
    """What the form sends for this choice."""
    return next(str(value) for value, shown in _OPTION.findall(page.text) if shown.startswith(label))


async def answers(ada: Browser, path: str) -> tuple[httpx2.Response, dict[str, str]]:
    """The page with all choices, and good values for all that is required."""
    page = await ada.get(path)
    typed = {
        **({named(page, TICKET): "OPS-12"} if TICKET in page.text else {}),
        named(page, "Business justification"): SECRET,
        named(page, "Application"): chosen(page, "Ledger"),
        named(page, "Urgency"): chosen(page, "high"),
    }
    page = await ada.submit(path, seen=page, show="choices", **typed)
    return page, {**typed, named(page, "Role"): chosen(page, "Reader")}


async def fill(ada: Browser, path: str, **more: str) -> None:
    """Fill in and send."""
    page, typed = await answers(ada, path)
    sent = await ada.submit(path, seen=page, **{**typed, **more})
    assert (sent.status_code, sent.headers.get("location")) == (303, path), sent.text


def stored(context: Context) -> list[FilledForm]:
    """All that was filled in."""

    def work(session: ReadSession) -> list[FilledForm]:
        return list(session.exec(select(FilledForm)).all())

    return context.database.read_now(work)


def entries(context: Context, kind: str) -> list[AuditEntry]:
    """The audit entries of a kind."""

    def work(session: ReadSession) -> list[AuditEntry]:
        return list(session.exec(select(AuditEntry).where(AuditEntry.kind == kind)).all())

    return context.database.read_now(work)


def tasks_of(context: Context) -> list[Task]:
    """All requests."""
    return context.database.read_now(lambda session: list(session.exec(select(Task)).all()))


def asked_about(context: Context, task: Task) -> dict[str, Any]:
    """The context of a request as it was stored."""
    return dict(tuple_of(Part(task), task_seal(task, context.ring)).context)


@pytest.mark.requirement("PDP-45")
async def test_denial_names_the_page_only_while_it_lacks_what_the_schema_demands(gate: httpx2.AsyncClient) -> None:
    denied = await deny(gate, call())
    assert page_of(denied) == f"/desk/forms/{denied['evaluation_id']}"
    plain = {**call(), "resource": {"type": "tool", "id": "git_commit"}}
    plain["context"] = {**plain["context"], TOOL_CALL: {**plain["context"][TOOL_CALL], "tool": "git_commit"}}
    assert "form_url" not in (await deny(gate, plain))["access_request"]


@pytest.mark.requirement("ARS-105", "ARS-106")
async def test_what_was_filled_in_goes_with_the_repeated_call_and_the_reviewer_reads_who_stated_it(
    gate: httpx2.AsyncClient, ada: Browser, grace: Browser, context: Context
) -> None:
    """Deny, fill in, repeat the call, submit without a word: everything is there, and nothing bound has changed."""
    denied = await deny(gate, call())
    refused = await request(gate, call(), denied)
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (422, "input-invalid")
    path = page_of(denied)
    await fill(ada, path)
    done = await ada.get(path)
    assert "Go back to your agent" in done.text
    assert SECRET not in done.text
    again = await deny(gate, call())
    assert again["evaluation_id"] != denied["evaluation_id"]
    accepted = await request(gate, call(), again)
    assert accepted.status_code == 202, accepted.text
    task_id = accepted.json()["task"]["id"]
    shown = (await grace.get(f"/desk/requests/{task_id}")).text
    assert "Stated by the requester" in shown
    assert "Filled in by Ada Asker" in shown
    for text in ("OPS-12", "app-1", "reader", SECRET):
        assert text in shown
    assert "Added what the requester had filled in" in shown
    [form] = stored(context)
    assert (form.task_id, form.used_at) == (task_id, context.clock())
    assert SECRET.encode() not in form.values_sealed
    [filled], [used] = entries(context, "form_filled"), entries(context, "form_used")
    assert (filled.chain, filled.actor, used.chain) == (denied["evaluation_id"], "person:ada", task_id)
    assert SECRET not in filled.detail + used.detail


async def test_form_is_used_once(gate: httpx2.AsyncClient, ada: Browser) -> None:
    denied = await deny(gate, call())
    await fill(ada, page_of(denied))
    assert (await request(gate, call(), denied)).status_code == 202
    later = await deny(gate, call())
    assert (await request(gate, call(), later)).status_code == 422


async def test_retry_under_the_same_key_returns_the_request_that_used_the_form(
    gate: httpx2.AsyncClient, ada: Browser
) -> None:
    denied = await deny(gate, call())
    await fill(ada, page_of(denied))
    gate.headers["Idempotency-Key"] = "once"
    first, second = await request(gate, call(), denied), await request(gate, call(), denied)
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["task"]["id"] == second.json()["task"]["id"]


async def test_what_the_submission_says_counts_before_what_was_filled_in(
    gate: httpx2.AsyncClient, ada: Browser, grace: Browser
) -> None:
    denied = await deny(gate, call())
    await fill(ada, page_of(denied))
    accepted = await request(gate, call(), denied, requested_access={"business_justification": "stated by the gate"})
    assert accepted.status_code == 202, accepted.text
    shown = (await grace.get(f"/desk/requests/{accepted.json()['task']['id']}")).text
    assert "stated by the gate" in shown
    assert SECRET not in shown


async def test_form_of_one_call_does_not_serve_another(gate: httpx2.AsyncClient, ada: Browser) -> None:
    await fill(ada, page_of(await deny(gate, call())))
    other = call("clerk")
    assert (await request(gate, other, await deny(gate, other))).status_code == 422


async def test_another_client_cannot_use_the_form(
    app: FastAPI, context: Context, gate: httpx2.AsyncClient, ada: Browser
) -> None:
    await fill(ada, page_of(await deny(gate, call())))
    async with http(app, headers=bearer(context, "other-gate")) as other:
        assert (await request(other, call(), await deny(other, call()))).status_code == 422
    assert [form.used_at for form in stored(context)] == [None]


async def test_page_is_unknown_to_everybody_but_the_requester(
    gate: httpx2.AsyncClient, grace: Browser, browser: Browser
) -> None:
    """A reviewer sees what he would see at an address that never existed; whoever is not logged in logs in first."""
    path = page_of(await deny(gate, call()))
    foreign, missing = await grace.get(path), await grace.get("/desk/forms/ev_nothing")
    assert (foreign.status_code, missing.status_code) == (404, 404)
    assert foreign.text == missing.text
    sent = await grace.submit(path, seen=foreign, f0="x")
    assert sent.status_code == 404
    assert (await grace.get("/desk/forms/no.id")).status_code == 404
    for wanted in (path, "/desk/forms/ev_nothing"):
        asked = await browser.get(wanted)
        assert (asked.status_code, asked.headers["location"]) == (303, "/login?next=" + wanted.replace("/", "%2F"))


async def test_name_that_may_mean_two_people_means_nobody(
    gate: httpx2.AsyncClient, ada: Browser, context: Context
) -> None:
    path = page_of(await deny(gate, call()))
    assert (await ada.get(path)).status_code == 200
    add_person(context, "other", name="Other Ada", identities=("https://elsewhere.example|ada",))
    assert (await ada.get(path)).status_code == 404


async def test_person_of_the_denied_caller_may_fill_in(
    app: FastAPI, gate: httpx2.AsyncClient, context: Context
) -> None:
    """Somebody runs the agent under a credential of his own."""
    add_person(context, "owner", name="Olive Owner", identities=(f"{IDENTIFIER}/issuer|gate",))
    owner = Browser(app)
    await owner.log_in("owner")
    assert (await owner.get(page_of(await deny(gate, call(subject="robot"))))).status_code == 200
    await owner.client.aclose()


async def test_form_expires_with_its_denial(
    gate: httpx2.AsyncClient, ada: Browser, grace: Browser, clock: FakeClock, context: Context
) -> None:
    path = page_of(await deny(gate, call()))
    await fill(ada, path)
    late = page_of(await deny(gate, call("clerk")))
    page = await ada.get(late)
    clock.advance(301)
    assert "It was kept until" in (await ada.get(path)).text
    for answer in (await ada.get(late), await ada.submit(late, seen=page, f0="OPS-1")):
        assert answer.status_code == 410
        assert "too late" in answer.text
    assert (await grace.get(late)).status_code == 404
    assert (await request(gate, call(), await deny(gate, call()))).status_code == 422
    clock.advance(DENIAL_GRACE.total_seconds())
    await purge_due(context)
    assert stored(context) == []


async def test_second_sending_changes_nothing(gate: httpx2.AsyncClient, ada: Browser, context: Context) -> None:
    path = page_of(await deny(gate, call()))
    page, typed = await answers(ada, path)
    assert (await ada.submit(path, seen=page, **typed)).status_code == 303
    before = stored(context)
    repeated = await ada.submit(path, seen=page, **typed)
    assert repeated.status_code == 409
    assert "had been filled in before" in repeated.text
    assert [(form.evaluation_id, form.values_sealed) for form in stored(context)] == [
        (form.evaluation_id, form.values_sealed) for form in before
    ]


async def test_wrong_values_are_explained_beside_their_fields_and_nothing_typed_is_lost(
    gate: httpx2.AsyncClient, ada: Browser, context: Context
) -> None:
    path = page_of(await deny(gate, call()))
    page, typed = await answers(ada, path)
    wrong = {
        "Business justification": ("", "Please fill this in."),
        TICKET: ("JIRA-1", "This does not have the form that is asked for."),
        "Hours": ("12", "This number is too large."),
        "Share": ("a lot", "Please write a number"),
        "First day": ("2026-02-30", "Please write a date"),
        "Requested until": ("2020-01-01T00:00", "Please name a time that is still to come."),
        "On call": ("7", "Please choose one of the values."),
        "Systems": ("one\ntwo\nthree", "Please name fewer."),
    }
    names = {title: named(page, title) for title in wrong}
    answer = await ada.submit(
        path, seen=page, **{**typed, **{names[title]: text for title, (text, _) in wrong.items()}}
    )
    assert answer.status_code == 422
    assert "Nothing was kept yet" in answer.text
    for title, (text, message) in wrong.items():
        assert re.search(rf'id="{names[title]}-error">{re.escape(message)}', answer.text), title
        assert f'href="#{names[title]}"' in answer.text
        assert re.search(
            rf'id="{names[title]}"[^>]*aria-invalid="true" aria-describedby="[^"]*{names[title]}-error', answer.text
        )
        assert text in answer.text
    assert f'<option value="{typed[named(page, "Role")]}" selected>Reader' in answer.text
    assert stored(context) == []


async def test_titles_and_values_are_text_and_never_markup(gate: httpx2.AsyncClient, ada: Browser) -> None:
    path = page_of(await deny(gate, call()))
    page, typed = await answers(ada, path)
    attack = '"><script>alert(1)</script></textarea>'
    answer = await ada.submit(
        path, seen=page, **{**typed, named(page, "Hours"): attack, named(page, "Business justification"): attack}
    )
    assert answer.status_code == 422
    for forbidden in ("<script>alert", "<b>Ticket", "<i>n</i>", "</textarea></textarea>"):
        assert forbidden not in answer.text
    assert TICKET in answer.text


@pytest.mark.requirement("ARS-109", "ARS-110")
async def test_choices_are_those_that_may_be_requested_for_the_denial(gate: httpx2.AsyncClient, ada: Browser) -> None:
    """Those of a field that depends on another come with it; a value that was not offered is not taken."""
    path = page_of(await deny(gate, call()))
    page = await ada.get(path)
    assert "Payroll" not in page.text
    assert "Ledger: Books and accounts" in page.text
    assert "Nothing to choose yet" in page.text
    assert "Reader" not in page.text
    page, typed = await answers(ada, path)
    assert page.status_code == 200
    assert "Clerk" not in page.text
    role = named(page, "Role")
    refused = await ada.submit(path, seen=page, **{**typed, role: "clerk"})
    assert refused.status_code == 422
    assert f'id="{role}-error">Please choose one of the values.' in refused.text


@pytest.mark.requirement("ARS-107")
async def test_what_is_bound_is_not_asked_for_and_not_changed(
    gate: httpx2.AsyncClient, ada: Browser, context: Context
) -> None:
    """`server` stands in the schema, but is what the enforcement point states; a bound ticket stays as it is."""
    about = call(ticket="OPS-1")
    denied = await deny(gate, about)
    path = page_of(denied)
    page = await ada.get(path)
    labels = [label.strip() for _, label in _FIELD.findall(page.text)]
    assert "Server" not in labels
    assert TICKET not in labels
    assert "Business justification" in labels
    await fill(ada, path, f90="OPS-2", server="evil", **{"context.ticket": "OPS-2"})
    assert (await request(gate, about, denied)).status_code == 202
    [task] = tasks_of(context)
    assert task.binding_hash == stored(context)[0].binding_hash
    values = asked_about(context, task)
    assert (values["ticket"], values["server"]) == ("OPS-1", "git")


async def test_item_of_a_bundle_takes_over_what_was_filled_in_for_it(
    gate: httpx2.AsyncClient, ada: Browser, grace: Browser, context: Context
) -> None:
    """Wishes alone: the context is shared by all items."""
    about = call(ticket="OPS-1")
    denied = [await deny(gate, {**about, "resource": thing}) for thing in GRANTS]
    items = [
        {"resource": thing, "action": about["action"], "denial": echo(told)}
        for thing, told in zip(GRANTS, denied, strict=True)
    ]
    body = {"subject": about["subject"], "context": about["context"], "items": items}
    refused = await gate.post("/access/v1/request", json=body)
    assert refused.status_code == 422
    for told in denied:
        await fill(ada, page_of(told))
    accepted = await gate.post("/access/v1/request", json=body)
    assert accepted.status_code == 202, accepted.text
    task_id = accepted.json()["task"]["id"]
    assert (await grace.get(f"/desk/requests/{task_id}")).text.count("Filled in by Ada Asker") == len(GRANTS)
    assert sorted((form.item, form.task_id) for form in stored(context)) == [(1, task_id), (2, task_id)]


async def test_template_that_hides_values_hides_what_was_filled_in_as_well(
    gate: httpx2.AsyncClient, ada: Browser, grace: Browser, context: Context
) -> None:
    change_rules(
        context,
        context.settings.policy_path,
        "    form: true\n",
        "    form: true\n    reveal: [/requested_access/role]\n",
    )
    denied = await deny(gate, call())
    await fill(ada, page_of(denied))
    task_id = (await request(gate, call(), denied)).json()["task"]["id"]
    shown = (await grace.get(f"/desk/requests/{task_id}")).text
    assert "reader" in shown
    assert "OPS-12" not in shown
    assert "app-1" not in shown


async def test_form_that_the_rules_no_longer_know_is_unknown_and_gives_nothing(
    gate: httpx2.AsyncClient, ada: Browser, context: Context
) -> None:
    denied = await deny(gate, call())
    await fill(ada, page_of(denied))
    change_rules(context, context.settings.policy_path, "    form: true\n", "")
    assert (await ada.get(page_of(denied))).status_code == 404
    assert (await request(gate, call(), denied)).status_code == 422
    assert "form_url" not in (await deny(gate, call()))["access_request"]


@pytest.mark.requirement("ARS-109")
async def test_value_that_is_retired_after_it_was_chosen_is_refused(
    gate: httpx2.AsyncClient, ada: Browser, context: Context
) -> None:
    denied = await deny(gate, call())
    await fill(ada, page_of(denied))
    change_rules(context, context.settings.policy_path, "value: app-1, ", "value: app-1, status: retired, ")
    refused = await request(gate, call(), denied)
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (422, "catalog-value-rejected")
    assert [form.used_at for form in stored(context)] == [None]


async def test_altered_row_gives_nothing(gate: httpx2.AsyncClient, ada: Browser, context: Context) -> None:
    """Whoever can write to the database cannot put words into the requester's mouth."""
    denied = await deny(gate, call())
    await fill(ada, page_of(denied))
    context.database.write_now(lambda session: session.execute(update(FilledForm).values(values_sealed=b"x" * 64)))
    assert (await request(gate, call(), denied)).status_code == 422


async def test_of_two_requests_at_once_one_takes_the_form(
    gate: httpx2.AsyncClient, ada: Browser, context: Context
) -> None:
    """Both rest on denials of the same thing, and both may have found it unused."""
    denied = [await deny(gate, call()) for _ in range(2)]
    await fill(ada, page_of(denied[0]))
    answered: list[int] = []

    async def submit(told: dict[str, Any]) -> None:
        answered.append((await request(gate, call(), told)).status_code)

    with anyio.fail_after(55):
        async with anyio.create_task_group() as group:
            for told in denied:
                group.start_soon(submit, told)
    assert sorted(answered) == [202, 422]
    assert len(tasks_of(context)) == 1
    assert len(entries(context, "form_used")) == 1


async def test_every_field_has_a_label_and_the_page_needs_no_script(gate: httpx2.AsyncClient, ada: Browser) -> None:
    page = await ada.get(page_of(await deny(gate, call())))
    form = page.text[page.text.index('action="/desk/forms/') : page.text.rindex("</form>")]
    ids = re.findall(r'<(?:input|select|textarea) id="(f\d+)" name="(f\d+)"', form)
    assert len(ids) > 8
    assert all(one == other for one, other in ids)
    assert [name for name, _ in _FIELD.findall(form)] == [one for one, _ in ids]
    described = {name for found in re.findall(r'aria-describedby="([^"]+)"', form) for name in found.split()}
    assert described <= set(re.findall(r'id="([^"]+)"', form))
    assert "<script" not in form
    assert not re.search(r'\son[a-z]+="', page.text)
