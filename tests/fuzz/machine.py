"""Calls a running service the way its own OpenAPI document describes it: each operation, and chains along its links.

Schemathesis makes the calls, valid and invalid ones. Most are made by the client who may make them; a part by nobody,
with a broken token or by a client who may do little. Nothing stops at the first fault: what the service answered is
counted, and each kind of answer that the document does not allow is kept once, with the call that led to it.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import hypothesis
import requests
import schemathesis
from hypothesis.errors import Flaky
from hypothesis.strategies import SearchStrategy
from schemathesis import Case, GenerationMode, Response
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.result import Ok
from schemathesis.generation.stateful import run_state_machine_as_test
from schemathesis.generation.stateful.state_machine import APIStateMachine
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.fuzz.rules import QUESTIONS
from tests.fuzz.story import Body, Known, Story, denial_of

STEPS: Final = 25
_CHAINS: Final = 12
_FEWEST: Final = 2
_MOST: Final = 15
_REST: Final = 10
_MEMBERS: Final = 3
_SECONDS: Final = 120
_AS_DOCUMENTED: Final = [status_code_conformance, content_type_conformance, response_schema_conformance]
_EVALUATION: Final = "/access/v1/evaluation"
_SUBMISSION: Final = "/access/v1/request"
_STATUS: Final = "/access/v1/request/{task_id}"
_DETAIL: Final = "/resolver/v1/requests/{request_id}"
_TELLING: Final = frozenset({_EVALUATION, _SUBMISSION, _STATUS, _DETAIL})

Call = Case[Any]
Operation = APIOperation[Any, Any, Any, Any]
Headers = Mapping[str, str]


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

    @property
    def only_refused(self) -> list[str]:
        """The operations that never did what they are for."""
        succeeded = {operation for operation, status in self.answers if 200 <= status < 300}
        return sorted({operation for operation, _ in self.answers} - succeeded)


@dataclass(frozen=True, slots=True)
class Callers:
    """Who calls: the headers that are right for a path, and those of clients who should be turned away."""

    proper: Callable[[str], Headers]
    named: Mapping[str, Headers]
    others: Sequence[Headers]

    def of(self, path: str, number: int) -> Headers:
        """The headers of the call with this number: one in eight should be turned away."""
        other, is_proper = divmod(number, 8)
        return self.proper(path) if is_proper else self.others[other % len(self.others)]


@dataclass(frozen=True, slots=True)
class Explorer:
    """Makes calls to the service at `url`; `meanwhile` does now and then what its background would."""

    url: str
    callers: Callers
    callback: str
    meanwhile: Callable[[], None]
    found: Found = field(default_factory=Found)
    known: Known = field(default_factory=Known)
    session: requests.Session = field(default_factory=requests.Session)

    def explore(
        self, document: dict[str, Any], *, calls: int, seed: int, may_go_on: Callable[[], bool], story: bool
    ) -> Found:
        """Make at least `calls` calls of the operations in `document`; a `story` needs all of them.

        It ends earlier, but not before every operation was called at random, when it may not go on.
        """
        schema = schemathesis.openapi.from_dict(_without_tokens(document))
        schema.config.update(base_url=self.url)
        operations = {op.definition.raw["operationId"]: op for op in _operations_of(schema)}
        teller = Story(partial(self._say, operations), self.known, self.meanwhile, self.callback)
        machine = self._machine(schema.as_state_machine())
        modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        strategies = [op.as_strategy(generation_mode=mode) for op in operations.values() for mode in modes]
        examples = max(_FEWEST, min(_MOST, calls // (8 * len(operations))))
        first = seed + 1
        while self.found.calls < calls and (may_go_on() or seed < first):
            seed += 1
            if story:
                teller.tell()
            with suppress(Flaky):  # a service remembers: the same calls may well be answered in another way
                run_state_machine_as_test(
                    hypothesis.seed(seed)(machine), settings=_settings(min(_CHAINS, 2 + calls // 500))
                )
            for number, cases in enumerate(strategies):
                if story and number % _REST == 0:
                    teller.tell_more()
                if may_go_on() or seed == first:
                    self._at_random(cases, seed=seed, examples=examples)
        return self.found

    def _say(
        self,
        operations: Mapping[str, Operation],
        operation: str,
        *,
        path: Body | None = None,
        body: Any = None,
        query: Body | None = None,
        caller: str | None = None,
    ) -> Response:
        """Make a good call of an operation."""
        called = operations[operation]
        given: dict[str, Any] = {} if body is None else {"body": body, "media_type": _media_type(called)}
        case = called.Case(path_parameters=dict(path or {}), query=dict(query or {}), **given)
        if isinstance(body, dict):
            self.known.good[case.method, case.path] = body
        return self._send(case, self.callers.named[caller] if caller else self.callers.proper(case.path))

    def call(self, case: Call) -> Response:
        """Make a call as it is; then again with names of what exists, and with good bodies that it changes in part."""
        response = self._send(case, self.callers.of(case.path, self.found.calls))
        naming = self._naming(case)
        for other in [*filter(None, [naming]), *self._changing(naming or case)]:
            self._send(other, self.callers.of(other.path, self.found.calls))
        return response

    def _send(self, case: Call, headers: Headers) -> Response:
        response = case.call(session=self.session, headers=dict(headers), timeout=_SECONDS)
        if response.status_code in {200, 201, 202}:
            self._remember(case, response)
        self._judge(case, response)
        return response

    def _remember(self, case: Call, response: Response) -> None:
        answer: Any = response.json() if case.path in _TELLING else {}
        if case.path == _EVALUATION and isinstance(case.body, dict):
            denial = denial_of(answer)
            if denial is not None:
                self.known.denied.append({**case.body, "denial": denial})
        elif case.path == _SUBMISSION:
            self.known.add_task(answer["task"]["id"])
        elif case.path == _STATUS and "result" in answer:
            self.known.add("approval_id", answer["result"]["approval"]["id"])
        elif case.path == _DETAIL:
            self.known.versions[answer["id"]] = answer["version"]

    def _naming(self, case: Call) -> Call | None:
        """The same call about something that exists; None if it can name nothing."""
        number = self.found.calls
        path = {name: self.known.one_of(name, number) or value for name, value in (case.path_parameters or {}).items()}
        query = {name: self.known.one_of(name, number) or value for name, value in (case.query or {}).items()}
        body = case.body
        if case.path == _EVALUATION:
            body = dict(QUESTIONS[number % len(QUESTIONS)])
        elif case.path == _SUBMISSION and self.known.denied:
            body = dict(self.known.denied.pop())
        elif isinstance(body, dict) and "version" in body and path.get("request_id") in self.known.versions:
            body = {**body, "version": self.known.versions[path["request_id"]]}
        if (path, query, body) == (case.path_parameters or {}, case.query or {}, case.body):
            return None
        return _changed(case, path_parameters=path, query=query, body=body)

    def _changing(self, case: Call) -> Iterator[Call]:
        """Good bodies in each of which one member is the one of the call, or is missing."""
        good = self.known.good.get((case.method, case.path), {})
        names = sorted(good)
        first = self.found.calls
        for name in {names[(first + number) % len(names)] for number in range(min(_MEMBERS, len(names)))}:
            body = {known: value for known, value in good.items() if known != name}
            if isinstance(case.body, dict) and name in case.body:
                body[name] = case.body[name]
            yield _changed(case, body=body, media_type=_media_type(case.operation))

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

    def _at_random(self, cases: SearchStrategy[Call], *, seed: int, examples: int) -> None:
        @hypothesis.seed(seed)
        @_settings(examples)
        @hypothesis.given(case=cases)
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


def _operations_of(schema: BaseSchema) -> Iterator[Operation]:
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        yield result.ok()


def _media_type(operation: Operation) -> str:
    (media_type,) = operation.definition.raw["requestBody"]["content"]
    return str(media_type)


def _changed(case: Call, **changes: Any) -> Call:
    """A copy of `case` that differs in these members."""
    members: dict[str, Any] = {
        "path_parameters": case.path_parameters,
        "query": case.query,
        "cookies": case.cookies,
        "headers": {name: value for name, value in case.headers.items() if name != "Idempotency-Key"},
        "body": case.body,
        "media_type": case.media_type,
        **changes,
    }
    changed: Call = case.operation.Case(method=case.method, **members)
    return changed


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
