"""From the text of a rules file to a policy in force, whole or not at all.

Checks the text against `policy.schema.json` (the one that editors use), compiles every expression, and checks what a
schema cannot say: names that must exist or be unique, reasons that enforcement points would misread, request schemas
that would fetch something. All faults are reported together, each with its line.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final, NoReturn, TypeVar

import jsonschema_rs

from arap_service.domain.appointing import Appointing
from arap_service.domain.behaviours import SCRIPTED, Act, BehaviourInvalid, read_act
from arap_service.domain.catalog_load import read_catalogs, read_fields
from arap_service.domain.forms import unaskable
from arap_service.domain.literal_calls import unusable_calls
from arap_service.domain.policy import (
    DEFAULT_MASK,
    Convertible,
    Deny,
    Evaluator,
    Permit,
    Policy,
    Requestable,
    Rule,
    Template,
)
from arap_service.domain.policy_text import PolicyProblem, PolicyText, read_text
from arap_service.domain.step_load import StepReader
from arap_service.domain.step_up import step_up_seconds
from arap_service.domain.terms_load import read_emergency, read_reasons, read_scope
from arap_service.protocol.expressions import (
    BoolExpression,
    Environment,
    ExpressionError,
    ExpressionInvalid,
    ValueExpression,
)

Compiled = TypeVar("Compiled", BoolExpression, ValueExpression)
DEFAULT_REASON: Final = "approval_required"
# An enforcement point that knows these reasons treats them as final or as "try again", not as requestable (PEP-48).
_RESERVED_REASONS: Final = frozenset({"policy_denied", "approval_unverifiable", "grant_pending"})
# And these, on a final denial, would have it ask again or look for an approval.
_RESERVED_DENIALS: Final = frozenset({"approval_unverifiable", "grant_pending"})
_VARIABLES: Final[Mapping[str, str]] = {
    "subject": "map",
    "resource": "map",
    "action": "map",
    "context": "map",
    "call": "map",
    "subject_entity": "map",
    "resource_entity": "map",
    "client": "string",
}
_PLAIN: Final = (
    "title",
    "explanation",
    "caution",
    "risk",
    "denial_seconds",
    "pending_seconds",
    "approval_seconds",
    "retention_seconds",
    "request_schema",
    "form",
    "reveal_reason",
    "notify",
    "provisioned_retry_seconds",
    "standing_days",
)


class PolicyInvalid(Exception):
    """The rules file is refused; `problems` holds every fault, in the order of the file."""

    def __init__(self, problems: Iterable[PolicyProblem]) -> None:
        self.problems: tuple[PolicyProblem, ...] = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("; ".join(str(problem) for problem in self.problems))


def load_policy(text: str) -> Policy:
    """The policy that `text` describes.

    Raises:
        PolicyInvalid: if anything at all is wrong with it.
    """
    source = read_text(text)
    if not source.problems:
        for error in _schema().iter_errors(source.value):
            source.report(_explain(error), *error.instance_path)
    if source.problems:
        raise PolicyInvalid(source.problems)
    policy = _Builder(source).build(hashlib.sha256(text.encode()).hexdigest())
    if source.problems:
        raise PolicyInvalid(source.problems)
    return policy


def policy_schema() -> dict[str, Any]:
    """The JSON Schema of the rules file, for editors and for the check itself."""
    text = resources.files("arap_service.domain").joinpath("policy.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def refuse_to_fetch(_uri: str) -> NoReturn:
    """A retriever for JSON Schema references that never opens a connection or a file."""
    raise ValueError("a schema may refer to itself only")


def _explain(error: jsonschema_rs.ValidationError) -> str:
    match error.kind.name, [str(name) for name in error.instance_path]:
        case "oneOf", ["rules", _]:
            return "a rule gives exactly one of permit, deny and request"
        case "anyOf", ["templates", _, "steps", _]:
            return "a step names groups, people, resolvers, relations or who"
        case _:
            return error.message


@cache
def _schema() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(policy_schema(), retriever=refuse_to_fetch)


class _Builder:
    """Builds the objects from a value that satisfies the schema, noting faults in the source as it goes."""

    def __init__(self, source: PolicyText) -> None:
        self._source = source
        self._file: dict[str, Any] = source.value
        self._environment = Environment(_VARIABLES)
        self._appointing = Appointing(Environment({**_VARIABLES, "person": "map", "person_entity": "map"}))
        self._never = self._environment.compile_bool("false")
        self._catalogs = read_catalogs(self._file, self._condition, source.report)

    def build(self, version: str) -> Policy:
        templates = {
            name: self._template(name, value, ("templates", name))
            for name, value in self._file.get("templates", {}).items()
        }
        self._appointing.entities = entities = self._entities()
        self._unique(self._file["rules"], "rules")
        rules = [self._rule(rule, templates, ("rules", index)) for index, rule in enumerate(self._file["rules"])]
        return Policy(
            version=version,
            environment=self._environment,
            rules=tuple(rule for rule in rules if rule is not None),
            templates=templates,
            groups=self._file.get("groups", {}),
            entities=entities,
            appointing=self._appointing,
            actions={kind: tuple(names) for kind, names in self._file.get("actions", {}).items()},
            clients=self._clients(),
            catalogs=self._catalogs,
            upstream=self._upstream(),
        )

    def _upstream(self) -> Convertible | None:
        if "upstream" not in self._file:
            return None
        value = self._file["upstream"]
        return Convertible(frozenset(value.get("convertible", ())), value.get("unexplained", False))

    def _entities(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        entities: Mapping[str, Mapping[str, Mapping[str, Any]]] = self._file.get("entities", {})
        for kind, named in entities.items():
            for name, facts in named.items():
                try:
                    self._environment.bind({"subject_entity": facts})
                except ExpressionError as error:
                    # Every question about it would be answered with an error.
                    fault = "a number is beyond 64 bits" if error.code == "number" else "a value is beyond expressions"
                    self._source.report(fault, "entities", kind, name)
        return entities

    def _clients(self) -> dict[str, tuple[BoolExpression, ...]]:
        clients: dict[str, tuple[BoolExpression, ...]] = {}
        for index, entry in enumerate(self._file.get("clients", [])):
            condition = self._condition(entry["may"], ("clients", index, "may"))
            clients[entry["client"]] = (*clients.get(entry["client"], ()), condition)
        return clients

    def _rule(self, rule: dict[str, Any], templates: Mapping[str, Template], path: tuple[object, ...]) -> Rule | None:
        when = self._condition(rule["when"], (*path, "when"))
        if "permit" in rule:
            return Rule(rule["id"], when, Permit(rule["id"]))
        if "deny" in rule:
            if rule["deny"] in _RESERVED_DENIALS:
                self._source.report("enforcement points take this reason as not final: choose another", *path, "deny")
            return Rule(rule["id"], when, Deny(rule["id"], rule["deny"]))
        reason = rule.get("reason", DEFAULT_REASON)
        if reason in _RESERVED_REASONS:
            self._source.report(
                "enforcement points take this reason as not requestable: choose another", *path, "reason"
            )
        template = templates.get(rule["request"])
        if template is None:
            self._source.report("no template has this name", *path, "request")
            return None
        return Rule(rule["id"], when, Requestable(rule["id"], reason, template))

    def _template(self, name: str, value: dict[str, Any], path: tuple[object, ...]) -> Template:
        self._unique(value["steps"], *path, "steps")
        self._unique(value.get("evaluators", []), *path, "evaluators")
        schema = value.get("request_schema")
        if schema is not None and not self._is_request_schema(schema, (*path, "request_schema")):
            schema = {}
        if value.get("form", False):
            self._check_form(schema, (*path, "form"))
        fields = read_fields(value, self._catalogs, self._source.report, path=path)
        reveal = value.get("reveal", "whole")
        return Template(
            id=name,
            **{member: value[member] for member in _PLAIN if member in value},
            steps=StepReader(self._file.get("groups"), self._who, self._source.report).read(
                value["steps"], (*path, "steps")
            ),
            evaluators=tuple(
                Evaluator(
                    each["id"],
                    self._condition(each["when"], (*path, "evaluators", index, "when")),
                    each["decision"],
                    each["reason"],
                )
                for index, each in enumerate(value.get("evaluators", []))
            ),
            catalogs=fields,
            effect=self._sentence(value["effect"], (*path, "effect")) if "effect" in value else None,
            provisioned=self._condition(value["provisioned"], (*path, "provisioned"))
            if "provisioned" in value
            else None,
            reveal="whole" if reveal == "whole" else tuple(reveal),
            mask=tuple(value.get("mask", DEFAULT_MASK)),
            # A reason that must look like something must be there.
            step_up=step_up_seconds(value.get("step_up", False)),
            reason_required=frozenset(value.get("reason_required", ["deny"])) | frozenset(value.get("reasons", {})),
            reasons=read_reasons(value, self._source.report, path=path),
            emergency=read_emergency(value, self._file.get("groups"), self._source.report, path=path),
            scope=read_scope(value, self._condition, self._source.report, path=path),
            script=tuple(self._acts(value.get("script", []), (*path, "script"))),
        )

    def _acts(self, script: list[dict[str, Any]], path: tuple[object, ...]) -> Iterator[Act]:
        for index, entry in enumerate(script):
            try:
                act = read_act(entry)
            except BehaviourInvalid as error:
                self._source.report(str(error), *path, index, error.member)
                continue
            if act.behaviour.group in SCRIPTED:
                yield act
            else:
                self._source.report("no behaviour of a request: arm it by the control API", *path, index, "behaviour")

    def _is_request_schema(self, schema: dict[str, Any], path: tuple[object, ...]) -> bool:
        try:
            jsonschema_rs.Draft202012Validator(schema, retriever=refuse_to_fetch)
        except (ValueError, jsonschema_rs.ReferencingError):
            self._source.report("not a JSON Schema 2020-12 that stands by itself", *path)
            return False
        return True

    def _check_form(self, schema: dict[str, Any] | None, path: tuple[object, ...]) -> None:
        if schema is None:
            self._source.report("a form needs a request_schema that says what to fill in", *path)
            return
        for pointer in unaskable(schema):
            self._source.report(f"no form can ask for {pointer}: leave it to enforcement points, or off", *path)

    def _unique(self, entries: list[dict[str, Any]], *path: object) -> None:
        seen: set[str] = set()
        for index, entry in enumerate(entries):
            if entry["id"] in seen:
                self._source.report("the id is used twice", *path, index, "id")
            seen.add(entry["id"])

    def _condition(self, text: str, path: tuple[object, ...]) -> BoolExpression:
        try:
            return self._checked(self._environment.compile_bool(text), text, path)
        except ExpressionInvalid as error:
            self._source.report(f"not a usable condition: {error}", *path)
            return self._never

    def _who(self, text: str, path: tuple[object, ...]) -> None:
        try:
            self._checked(self._appointing.environment.compile_bool(text), text, path)
        except ExpressionInvalid as error:
            self._source.report(f"not a usable condition: {error}", *path)

    def _sentence(self, text: str, path: tuple[object, ...]) -> ValueExpression | None:
        try:
            return self._checked(self._environment.compile_value(text), text, path)
        except ExpressionInvalid as error:
            self._source.report(f"not a usable expression: {error}", *path)
            return None

    def _checked(self, compiled: Compiled, text: str, path: tuple[object, ...]) -> Compiled:
        for call in unusable_calls(text):
            self._source.report(f"{call} cannot succeed, whatever the question is", *path)
        return compiled
