"""Calls a running service the way its own OpenAPI document describes it: each operation, and chains along its links.

Schemathesis makes the calls, valid and invalid ones. Most are made by the client who may make them; a part by nobody,
with a broken token or by a client who may do little. Nothing stops at the first fault: what the service answered is
counted, and each kind of answer that the document does not allow is kept once, with the call that led to it.
"""

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import hypothesis
import schemathesis
from hypothesis.errors import Flaky
from schemathesis import Case, GenerationMode, Response
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.result import Ok
from schemathesis.generation.stateful import run_state_machine_as_test
from schemathesis.generation.stateful.state_machine import APIStateMachine
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

STEPS: Final = 25
_CHAINS: Final = 12
_PER_OPERATION: Final = 8
_SECONDS: Final = 10
_AS_DOCUMENTED: Final = [status_code_conformance, content_type_conformance, response_schema_conformance]
_EVALUATION: Final = "/access/v1/evaluation"
_SUBMISSION: Final = "/access/v1/request"
_STATUS: Final = "/access/v1/request/{task_id}"
_DETAIL: Final = "/resolver/v1/requests/{request_id}"
_RECENT: Final = 5

Call = Case[Any]
Headers = Mapping[str, str]
Body = Mapping[str, Any]


@dataclass(slots=True)
class Found:
    """What the calls led to: how often each operation answered with each status, and each kind of fault once."""

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    faults: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def calls(self) -> int:
        """How many were made."""
        return self.answers.total()

    def told(self) -> dict[str, Any]:
        """All of it for a report; there are no faults if all is well."""
        statuses: dict[str, dict[str, int]] = {}
        for (operation, status), times in sorted(self.answers.items()):
            statuses.setdefault(operation, {})[str(status)] = times
        faults = [{"operation": operation, "fault": fault} for operation, fault in sorted(self.faults)]
        return {"calls": self.calls, "answers": statuses, "faults": faults}

    def took(self, operation: str, status: int) -> bool:
        """Whether `operation` has answered with `status` at least once."""
        return self.answers[operation, status] > 0


@dataclass(frozen=True, slots=True)
class Callers:
    """Who calls: the headers that are right for a path, and those of clients who should be turned away."""

    proper: Callable[[str], Headers]
    others: Sequence[Headers]

    def of(self, path: str, number: int) -> Headers:
        """The headers of the call with this number: one in eight should be turned away."""
        other, is_proper = divmod(number, 8)
        return self.proper(path) if is_proper else self.others[other % len(self.others)]


@dataclass(frozen=True, slots=True)
class Explorer:
    """Makes calls to the service at `url`; every second evaluation asks one of `questions`, which can be requested."""

    url: str
    callers: Callers
    questions: Sequence[Body]
    found: Found = field(default_factory=Found)
    denied: list[Body] = field(default_factory=list)
    tasks: dict[str, int] = field(default_factory=dict)
    approvals: list[str] = field(default_factory=list)

    def explore(self, document: dict[str, Any], *, calls: int, seed: int) -> Found:
        """Make at least `calls` calls of the operations in `document`."""
        schema = schemathesis.openapi.from_dict(_without_tokens(document))
        schema.config.update(base_url=self.url)
        machine = self._machine(schema.as_state_machine())
        while self.found.calls < calls:
            seed += 1
            with suppress(Flaky):  # a service remembers: the same calls may well be answered in another way
                run_state_machine_as_test(hypothesis.seed(seed)(machine), settings=_settings(_CHAINS))
            self._operations(schema, seed=seed)
        return self.found

    def call(self, case: Call) -> Response:
        """Make one call as its caller, count the answer and compare it with the document."""
        number = self.found.calls
        if case.path == _EVALUATION and number % 2:
            case.body = dict(self.questions[number // 2 % len(self.questions)])
        if case.path == _SUBMISSION and number % 2:
            self._make_genuine(case)
        if number % 2:
            self._name_existing(case, number)
        response = case.call(headers=dict(self.callers.of(case.path, number)), timeout=_SECONDS)
        if response.status_code in {200, 201, 202}:
            self._remember(case, response)
        self._judge(case, response)
        return response

    def _remember(self, case: Call, response: Response) -> None:
        if case.path == _EVALUATION:
            context = response.json().get("context", {})
            if "access_request" in context and isinstance(case.body, dict):
                echoed = {name: context["access_request"][name] for name in ("binding_token", "expires_at")}
                denial = {**echoed, "evaluation_id": context["evaluation_id"]}
                self.denied.append({**case.body, "denial": denial})
        elif case.path == _SUBMISSION:
            self.tasks[response.json()["task"]["id"]] = 1
        elif case.path == _STATUS and "result" in response.json():
            self.approvals.append(response.json()["result"]["approval"]["id"])
        elif case.path == _DETAIL:
            self.tasks[response.json()["id"]] = response.json()["version"]

    def _name_existing(self, case: Call, number: int) -> None:
        """Have a call that names a request or an approval name one that exists, a recent one mostly."""
        tasks = list(self.tasks)[-_RECENT:]
        for name, known in (("task_id", tasks), ("request_id", tasks), ("approval_id", self.approvals[-_RECENT:])):
            if name in case.path_parameters and known:
                case.path_parameters = {**case.path_parameters, name: known[number // 2 % len(known)]}
        task = case.path_parameters.get("request_id")
        if isinstance(case.body, dict) and "version" in case.body and task in self.tasks:
            case.body = {**case.body, "version": self.tasks[task]}

    def _make_genuine(self, case: Call) -> None:
        """Have a submission request what was denied last, without anything invented beside it."""
        if self.denied:
            case.body = dict(self.denied.pop())
            case.headers.pop("Idempotency-Key", None)

    def _judge(self, case: Call, response: Response) -> None:
        operation, status = f"{case.method} {case.path}", response.status_code
        self.found.answers[operation, status] += 1
        if status >= 500 and status != 501:  # 501 is the documented answer to a search that no rules can be asked for
            self.found.faults.setdefault((operation, f"answered {status}"), case.as_curl_command())
        try:
            case.validate_response(response, checks=_AS_DOCUMENTED)
        except (FailureGroup, Failure) as failed:
            for fault in failed.exceptions if isinstance(failed, FailureGroup) else [failed]:
                kind = f"{type(fault).__name__} at {status}"
                self.found.faults.setdefault((operation, kind), f"{fault.message}: {case.as_curl_command()}")

    def _operations(self, schema: BaseSchema, *, seed: int) -> None:
        for result in schema.get_all_operations():
            assert isinstance(result, Ok), result
            operation = result.ok()
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

                @hypothesis.seed(seed)
                @_settings(_PER_OPERATION)
                @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
                def one(case: Call) -> None:
                    self.call(case)

                # Not every operation takes something that can be wrong.
                with suppress(Flaky, hypothesis.errors.Unsatisfiable, hypothesis.errors.InvalidArgument):
                    one()

    def _machine(self, base: type[APIStateMachine]) -> type[APIStateMachine]:
        explorer = self

        class Machine(base):  # type: ignore[misc,valid-type]
            def call(self, case: Call, **_kwargs: Any) -> Response:
                return explorer.call(case)

            def validate_response(self, *_args: Any, **_kwargs: Any) -> None:
                """Every call has been judged already."""

        return Machine


def _without_tokens(document: dict[str, Any]) -> dict[str, Any]:
    """The document, except that it asks for no token: who calls is decided here, and nothing invents a caller."""
    copied: dict[str, Any] = copy.deepcopy(document)
    for operations in copied["paths"].values():
        for operation in operations.values():
            operation.pop("security", None)
    return copied


def _settings(examples: int) -> hypothesis.settings:
    return hypothesis.settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
