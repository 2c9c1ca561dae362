"""Who may decide by what the rules know of him: by a relation to what is asked, or because an expression names him.

A *bond* stands for one relation to one thing, such as being manager of user alice: a digest, so that a request can be
found by it. Entities say who bears which bond, under the rules in force at that moment; an expression that cannot be
evaluated names nobody. Separation of duties is judged elsewhere (`reviewers.py`). See design.md section 4, "A step".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from arap_service.protocol.canonical import digest
from arap_service.protocol.expressions import BoolExpression, Environment, ExpressionError, ExpressionInvalid

MANAGER: Final = "manager"
"""The relation that the directory of people knows as well as the entities."""
ANYBODY: Final = "*"
"""The name of whoever an expression may name."""
_MOST_REMEMBERED: Final = 200_000

Entities = Mapping[str, Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Relation:
    """Who is `relation` of the request's subject or resource (`of`)."""

    of: str
    relation: str


def bond(relation: str, kind: str, name: str) -> str:
    """The bond of whoever is `relation` of the thing of this type and id."""
    return digest(["entity", relation, kind, name])


def directory_bond(relation: str, name: str) -> str:
    """The bond of whoever the directory of people knows as `relation` of the person with this name."""
    return digest(["directory", relation, name])


def bonds_of(relations: frozenset[Relation], things: Mapping[str, tuple[str, str]]) -> frozenset[str]:
    """The bonds that name a decider of a request, `things` being type and id of its subject and resource."""
    found = {bond(each.relation, *things[each.of]) for each in relations}
    found |= {
        directory_bond(MANAGER, things["subject"][1]) for each in relations if each == Relation("subject", MANAGER)
    }
    return frozenset(found)


@dataclass(slots=True)
class Appointing:
    """Relations and expressions under one rules file, with what has been found out already.

    `environment` has the variables of the rules and those of the person.
    """

    environment: Environment
    entities: Entities = field(default_factory=dict)
    _borne: dict[str, frozenset[str]] | None = None
    _compiled: dict[str, BoolExpression | None] = field(default_factory=dict)
    _held: dict[tuple[object, ...], bool] = field(default_factory=dict)

    def borne_by(self, names: frozenset[str]) -> frozenset[str]:
        """The bonds of whoever bears these names, which are ids and full identities and are compared exactly."""
        if self._borne is None:
            found: dict[str, set[str]] = {}
            for name, each in _bearers(self.entities):
                found.setdefault(name, set()).add(each)
            self._borne = {name: frozenset(bonds) for name, bonds in found.items()}
        return frozenset().union(*(self._borne.get(name, frozenset()) for name in names))

    def names(self, who: str, variables: Mapping[str, Any], *, key: tuple[object, ...] | None = None) -> bool:
        """Whether the expression `who` holds; what was found under a `key` before is not asked again."""
        if key is not None and (key, who) in self._held:
            return self._held[key, who]
        held = self._holds(who, variables)
        if key is not None:
            if len(self._held) >= _MOST_REMEMBERED:
                self._held.clear()
            self._held[key, who] = held
        return held

    def remembers(self, who: str, *, key: tuple[object, ...]) -> bool | None:
        """What was found under `key`, if anything was."""
        return self._held.get((key, who))

    def _holds(self, who: str, variables: Mapping[str, Any]) -> bool:
        if who not in self._compiled:
            try:
                self._compiled[who] = self.environment.compile_bool(who)
            except ExpressionInvalid:  # a request keeps the expression that it was made with
                self._compiled[who] = None
        expression = self._compiled[who]
        try:
            return expression is not None and expression.holds(variables)
        except ExpressionError:
            return False


def _bearers(entities: Entities) -> Iterator[tuple[str, str]]:
    """Every name in an attribute of an entity, with the bond that it bears by that."""
    for kind, named in entities.items():
        for thing, facts in named.items():
            for relation, value in facts.items():
                names: Sequence[object] = value if isinstance(value, list) else (value,)
                for name in names:
                    if isinstance(name, str):
                        yield name, bond(relation, kind, thing)
