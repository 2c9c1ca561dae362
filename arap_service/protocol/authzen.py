"""Shapes of the AuthZEN Authorization API 1.0: evaluation, evaluations, searches and metadata.

Decides whether a parsed JSON value has the shape that the API requires, and keeps unknown members.
It doesn't read JSON text (`canonical.strict_loads` does) and doesn't judge what a request asks for.
Sources: Authorization API 1.0, "Information Model" to "Policy Decision Point Metadata".
"""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from arap_service.protocol.canonical import Tuple4, json_pointer

Semantic = Literal["execute_all", "deny_on_first_deny", "permit_on_first_permit"]


class InvalidShape(ValueError):
    """A JSON value lacks the required shape; `pointer` says where, and the message repeats nothing of the value."""

    def __init__(self, pointer: str) -> None:
        super().__init__("a member is missing or has the wrong type")
        self.pointer = pointer


class Wire(BaseModel):
    """Base of every shape on the wire: strict types, unknown members kept, nothing changed after parsing."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    def wire(self) -> dict[str, Any]:
        """The JSON object: the members that were given, unknown ones included, and no others."""
        return self.model_dump(exclude_unset=True)


Shape = TypeVar("Shape", bound=Wire)


class Subject(Wire):
    """Who asks for access."""

    type: str
    id: str
    properties: dict[str, Any] = Field(default_factory=dict)


class Resource(Wire):
    """What access is asked to."""

    type: str
    id: str
    properties: dict[str, Any] = Field(default_factory=dict)


class Action(Wire):
    """What is to be done to the resource."""

    name: str
    properties: dict[str, Any] = Field(default_factory=dict)


class EvaluationRequest(Wire):
    """One question: may this subject do this action to this resource?"""

    subject: Subject
    resource: Resource
    action: Action
    context: dict[str, Any] = Field(default_factory=dict)


class EvaluationResponse(Wire):
    """One answer; only JSON `true` permits (PEP-14)."""

    decision: bool
    context: dict[str, Any] = Field(default_factory=dict)


class Options(Wire):
    """How a batch is to be evaluated."""

    evaluations_semantic: Semantic = "execute_all"


class EvaluationsRequest(Wire):
    """A batch with defaults; without entries it is a single question (PDP-18)."""

    evaluations: list[dict[str, Any]] = Field(default_factory=list)
    options: Options = Field(default_factory=Options)

    def entries(self) -> list[dict[str, Any]]:
        """Each entry over the defaults, member by member and never merged deeper (PDP-16); shapes unchecked."""
        given = self.model_extra or {}
        defaults = {name: given[name] for name in ("subject", "resource", "action", "context") if name in given}
        return [defaults | entry for entry in self.evaluations]


class EvaluationsResponse(Wire):
    """The answers to a batch, in its order."""

    evaluations: list[EvaluationResponse]


class Kind(Wire):
    """What a search looks for: entities of one type, whatever `id` says."""

    type: str


class Page(Wire):
    """Which part of a long answer is wanted."""

    token: str = ""
    limit: Annotated[int, Field(ge=0)] | None = None


class SubjectSearch(Wire):
    """Who may do this action to this resource?"""

    subject: Kind
    resource: Resource
    action: Action
    context: dict[str, Any] = Field(default_factory=dict)
    page: Page = Field(default_factory=Page)


class ResourceSearch(Wire):
    """To what may this subject do this action?"""

    subject: Subject
    resource: Kind
    action: Action
    context: dict[str, Any] = Field(default_factory=dict)
    page: Page = Field(default_factory=Page)


class ActionSearch(Wire):
    """What may this subject do to this resource?"""

    subject: Subject
    resource: Resource
    context: dict[str, Any] = Field(default_factory=dict)
    page: Page = Field(default_factory=Page)


class Metadata(Wire):
    """What a decision point says about itself; the caller checks identifier, scheme and origins."""

    policy_decision_point: str
    access_evaluation_endpoint: str
    access_evaluations_endpoint: str | None = None
    access_request_endpoint: str | None = None
    jwks_uri: str | None = None
    capabilities: list[str] = Field(default_factory=list)


def parse(shape: type[Shape], value: object) -> Shape:
    """The value as the given shape.

    Raises:
        InvalidShape: with the pointer of the first member at fault.
    """
    try:
        return shape.model_validate(value)
    except ValidationError as fault:
        where = fault.errors(include_url=False, include_context=False, include_input=False)[0]["loc"]
    raise InvalidShape(json_pointer(where))


def parse_evaluation(value: object) -> EvaluationRequest:
    """A single question as a model (PDP-02).

    Raises:
        InvalidShape: with the pointer of the first member at fault.
    """
    return parse(EvaluationRequest, value)


def tuple_of(value: object) -> Tuple4:
    """A single question as the objects that arrived, by the same rules as `parse_evaluation` and quicker (PDP-02).

    Raises:
        InvalidShape: with the pointer of the first member at fault.
    """
    if not isinstance(value, dict):
        raise InvalidShape("")
    context = value.get("context", {})
    question = Tuple4(
        _entity(value, "subject", ("type", "id")),
        _entity(value, "resource", ("type", "id")),
        _entity(value, "action", ("name",)),
        context,
    )
    if not isinstance(context, dict):
        raise InvalidShape("/context")
    return question


def _entity(value: dict[str, Any], name: str, texts: tuple[str, ...]) -> dict[str, Any]:
    entity = value.get(name)
    if not isinstance(entity, dict):
        raise InvalidShape(f"/{name}")
    for text in texts:
        if not isinstance(entity.get(text), str):
            raise InvalidShape(f"/{name}/{text}")
    if "properties" in entity and not isinstance(entity["properties"], dict):
        raise InvalidShape(f"/{name}/properties")
    return entity
