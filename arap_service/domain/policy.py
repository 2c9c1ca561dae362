"""The rules file as objects, and what it says to a question: permit, deny or requestable.

The first rule whose condition holds decides, no match denies, and a condition that cannot be evaluated denies as well:
an expression error never falls through to a later, more generous rule. Loading and checking the file is
`policy_load.py`; whether an approval covers a requestable question is `reevaluation.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from arap_service.domain.appointing import Appointing, Relation
from arap_service.domain.behaviours import Act
from arap_service.domain.catalogs import Catalog, CatalogField
from arap_service.domain.reasons import ReasonRule
from arap_service.domain.scopes import Scope
from arap_service.domain.timing import Timing
from arap_service.domain.tool_calls import UNBOUND, flaw_of, hides_arguments, is_bound
from arap_service.domain.workflow import Evaluation, Voice
from arap_service.protocol.canonical import TOOL_CALL
from arap_service.protocol.expressions import (
    BoolExpression,
    Environment,
    ExpressionError,
    ExpressionInvalid,
    Facts,
    ValueExpression,
)

DEFAULT_APPROVAL_SECONDS: Final = 900
NO_MATCH: Final = "policy_denied"
POLICY_ERROR: Final = "policy_error"
_NOTHING: Final[Mapping[str, Any]] = {}

DEFAULT_MASK: Final = (
    "password",
    "passwords",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "secrets",
    "client_secret",
    "token",
    "access_token",
    "refresh_token",
    "id_token",
    "api_key",
    "api_keys",
    "access_key",
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "private_key",
    "pin",
)


@dataclass(frozen=True, slots=True)
class Question:
    """One evaluation: the four objects as the caller sent them, and the client that asks."""

    subject: Mapping[str, Any]
    resource: Mapping[str, Any]
    action: Mapping[str, Any]
    context: Mapping[str, Any]
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class Evaluator:
    """An automated voice: while `when` holds of the question it says `decision`."""

    id: str
    when: BoolExpression
    decision: Voice
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """Who may decide, how many approvals it takes, how many denials end it.

    Any of groups, people, resolver clients, relations may, and whoever the expression `who` names. `bonds` are what
    the relations come to for one request.

    `repeat` admits somebody who has already counted in another step of the same request. `after` are the steps that
    must be complete before this one opens.
    """

    id: str
    title: str
    groups: frozenset[str] = frozenset()
    people: frozenset[str] = frozenset()
    resolvers: frozenset[str] = frozenset()
    quorum: int = 1
    veto: int = 1
    repeat: bool = False
    after: frozenset[str] = frozenset()
    relations: frozenset[Relation] = frozenset()
    who: str | None = None
    timing: Timing = field(default_factory=Timing)
    bonds: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Emergency:
    """Who is on call, how long an approval of theirs lasts, and who is told and looks at it afterwards, until when."""

    title: str
    groups: frozenset[str]
    people: frozenset[str]
    owners: frozenset[str]
    approval_seconds: int
    pending_seconds: int | None = None
    review_seconds: int = 86400


@dataclass(frozen=True, slots=True)
class Template:
    """One kind of request: what reviewers read, who decides, and how long everything lives (in seconds).

    `script` is what a simulator does to its requests; any other service ignores it.
    """

    id: str
    title: str
    explanation: str
    steps: tuple[Step, ...]
    caution: str | None = None
    effect: ValueExpression | None = None
    risk: Literal["low", "medium", "high"] = "medium"
    denial_seconds: int = 300
    pending_seconds: int = 86400
    approval_seconds: int = DEFAULT_APPROVAL_SECONDS
    retention_seconds: int = 86400
    request_schema: Mapping[str, Any] | None = None
    catalogs: Mapping[str, CatalogField] = field(default_factory=dict)
    form: bool = False
    reveal: Literal["whole"] | tuple[str, ...] = "whole"
    reveal_reason: bool = True
    notify: Literal["title", "sentence"] = "title"
    """What people read of a request outside the desk."""
    mask: tuple[str, ...] = DEFAULT_MASK
    evaluators: tuple[Evaluator, ...] = ()
    provisioned: BoolExpression | None = None
    provisioned_retry_seconds: int = 5
    reason_required: frozenset[str] = frozenset({"deny"})
    step_up: int | None = None
    reasons: Mapping[str, ReasonRule] = field(default_factory=dict)
    scope: Scope | None = None
    emergency: Emergency | None = None
    standing_days: int = 30
    script: tuple[Act, ...] = ()


@dataclass(frozen=True, slots=True)
class Permit:
    """The access is allowed by this rule."""

    rule_id: str


@dataclass(frozen=True, slots=True)
class Deny:
    """The access is denied and nobody can change that by approving; `rule_id` is absent when no rule matched.

    `mandatory` is False where no rule denies in so many words, so that another decision point may permit.
    """

    rule_id: str | None
    reason: str
    mandatory: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class Requestable:
    """The access is denied, and may be requested by the template's workflow."""

    rule_id: str
    reason: str
    template: Template


Judgement = Permit | Deny | Requestable


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition and what follows from it."""

    id: str
    when: BoolExpression
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Convertible:
    """Which denials of the decision point upstream may be requested: by their reasons, or for giving none."""

    reasons: frozenset[str] = frozenset()
    unexplained: bool = False

    def admits(self, reason: str | None) -> bool:
        """Whether a denial for `reason` is one of them."""
        return self.unexplained if reason is None else reason in self.reasons


@dataclass(frozen=True, slots=True)
class Policy:
    """A rules file in force; `version` is the SHA-256 of its text in hexadecimal.

    `actions` are the names that an action search considers, by type of resource; rules may know others. With `upstream`
    the rules are made for standing behind another decision point, and permit nothing by themselves.
    """

    version: str
    environment: Environment
    rules: tuple[Rule, ...]
    templates: Mapping[str, Template] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    entities: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    actions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    clients: Mapping[str, tuple[BoolExpression, ...]] = field(default_factory=dict)
    catalogs: Mapping[str, Catalog] = field(default_factory=dict)
    upstream: Convertible | None = None
    appointing: Appointing | None = None


def judge(policy: Policy, question: Question) -> Judgement:
    """What the rules say to `question`; an approval it may carry is not looked at.

    A shown call that contradicts what is bound is denied before any rule can read it, and one that is not bound at all
    is not requestable.
    """
    flaw = flaw_of(question.context)
    if flaw is not None:
        return Deny(None, flaw)
    rule_id = None
    try:
        facts = facts_of(policy, question)
        for rule in policy.rules:
            rule_id = rule.id
            if rule.when.holds(facts):
                return _if_bound(rule.judgement, question)
    except ExpressionError:
        return Deny(rule_id, POLICY_ERROR)
    return Deny(None, NO_MATCH, mandatory=False)


def may_submit(policy: Policy, client_id: str, question: Question) -> bool:
    """Whether this client may request this access at all (ARS-02); a client without an entry may not."""
    return any(_holds(policy, expression, question) for expression in policy.clients.get(client_id, ()))


def hear_evaluators(policy: Policy, template: Template, question: Question) -> tuple[Evaluation, ...]:
    """The automated voices on a request; one that cannot be evaluated says `hold`, so that people decide.

    One that reads a call of which not all was shown cannot be: nothing answers for what nobody has seen (X-42).
    """
    return tuple(
        voice for evaluator in template.evaluators if (voice := _voice(policy, evaluator, question)) is not None
    )


def is_named_by(
    policy: Policy, who: str, question: Question, person: Mapping[str, Any], *, key: tuple[object, ...] | None = None
) -> bool:
    """Whether the expression `who` of a step names the person; one that cannot be evaluated names nobody."""
    if policy.appointing is None:
        return False
    known = policy.entities.get("person", _NOTHING).get(person["id"], _NOTHING)
    variables = {**_shown_variables(policy, question), "person": person, "person_entity": known}
    return policy.appointing.names(who, variables, key=key)


def is_provisioned(policy: Policy, template: Template, question: Question) -> bool | None:
    """Whether what was approved is in place; None when the template sets no such condition, False when it errs."""
    return None if template.provisioned is None else _holds(policy, template.provisioned, question)


def is_within(policy: Policy, text: str, question: Question) -> bool:
    """Whether the bound of a widened scope holds of `question`, shown as it is; one that errs does not (PDP-67)."""
    try:
        return policy.environment.compile_bool(text).holds(_shown_facts(policy, question))
    except (ExpressionError, ExpressionInvalid):
        return False


def effect_of(policy: Policy, template: Template, question: Question) -> str | None:
    """The sentence that says what approving will do, or None when the template has none that fits."""
    if template.effect is None:
        return None
    try:
        sentence = template.effect.evaluate(_shown_facts(policy, question))
    except ExpressionError:
        return None
    return sentence if isinstance(sentence, str) and sentence else None


def _if_bound(judgement: Judgement, question: Question) -> Judgement:
    if isinstance(judgement, Requestable) and not is_bound(question.context, resource_type=question.resource["type"]):
        return Deny(judgement.rule_id, UNBOUND, mandatory=False)
    return judgement


def _voice(policy: Policy, evaluator: Evaluator, question: Question) -> Evaluation | None:
    try:
        if evaluator.when.holds(_shown_facts(policy, question)):
            return Evaluation(evaluator.id, evaluator.decision, evaluator.reason)
    except ExpressionError:
        return Evaluation(evaluator.id, "hold", POLICY_ERROR)
    return None


def _holds(policy: Policy, expression: BoolExpression, question: Question) -> bool:
    try:
        return expression.holds(facts_of(policy, question))
    except ExpressionError:
        return False


def facts_of(policy: Policy, question: Question) -> Facts:
    """What conditions read of `question`.

    Raises:
        ExpressionError: It holds what no expression can.
    """
    return policy.environment.bind(_variables(policy, question))


def _shown_facts(policy: Policy, question: Question) -> Facts:
    """The facts without `call` where some of its arguments are not shown: not even a default stands for them."""
    return policy.environment.bind(_shown_variables(policy, question))


def _shown_variables(policy: Policy, question: Question) -> dict[str, Any]:
    variables = _variables(policy, question)
    if hides_arguments(question.context):
        del variables["call"]
    return variables


def _variables(policy: Policy, question: Question) -> dict[str, Any]:
    call = question.context.get(TOOL_CALL)
    return {
        "subject": question.subject,
        "resource": question.resource,
        "action": question.action,
        "context": question.context,
        "call": call if isinstance(call, dict) else _NOTHING,
        "subject_entity": _entity(policy, question.subject),
        "resource_entity": _entity(policy, question.resource),
        "client": question.client_id or "",
    }


def _entity(policy: Policy, named: Mapping[str, Any]) -> Mapping[str, Any]:
    entities = policy.entities.get(named["type"])
    return _NOTHING if entities is None else entities.get(named["id"], _NOTHING)
