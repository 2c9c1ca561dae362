"""Shows what the gate would ask the decision point about a call, for whoever writes mappings and rules.

Builds the question exactly as a running gate does and sends nothing by itself. The claims that it is given are taken
as they are; whether a token deserves belief is not looked at here.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp import types
from pydantic import ValidationError

from mcp_gate.callers import FrontCaller, caller_of_claims, configured_caller
from mcp_gate.mapping import map_call, questions
from mcp_gate.methods import METHODS, map_method
from mcp_gate.settings import ConfigurationInvalid, GateSettings
from mcp_gate.templates import Json, declared_mapping
from mcp_gate.tools import KnownTool, known


@dataclass(frozen=True, slots=True)
class Explanation:
    """The questions that must all be permitted, and what the gate would warn its operator of."""

    questions: tuple[Json, ...]
    warnings: tuple[str, ...] = ()


def claims_of_token(token: str) -> Json:
    """The claims of a JWT, which nobody verified.

    Raises:
        ConfigurationInvalid: It is none.
    """
    try:
        payload = token.strip().split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, binascii.Error, ValueError, RecursionError):
        raise ConfigurationInvalid("the token is no JWT, so its claims cannot be read; give --claims") from None
    if not isinstance(claims, dict):
        raise ConfigurationInvalid("the token is no JWT, so its claims cannot be read; give --claims")
    return claims


def caller_for(settings: GateSettings, claims: Mapping[str, Any] | None) -> FrontCaller:
    """Who calls: whom the claims name, else whom the configuration names.

    Raises:
        ConfigurationInvalid: Nobody is named.
        Unidentified: The claims name nobody.
    """
    if claims is not None:
        return caller_of_claims({"client_id": None, **claims}, settings)
    configured = configured_caller(settings)
    if configured is None:
        raise ConfigurationInvalid("nobody is calling: give --claims or --token-file, or configure stdio.principal")
    return configured


def tool_of(document: object, name: str, settings: GateSettings) -> KnownTool:
    """The tool as its server lists it in `document`, which is one tool or an answer of `tools/list`.

    Raises:
        ConfigurationInvalid: `document` does not list it.
    """
    listed = document.get("tools", [document]) if isinstance(document, dict) else document
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name:
            try:
                return known(types.Tool.model_validate(entry, by_name=False), settings.tools.get(name))
            except ValidationError:
                break
    raise ConfigurationInvalid(f"--listing: it does not list a tool {name}")


def explain_call(
    settings: GateSettings, tool: str, arguments: Mapping[str, Any], *, caller: FrontCaller, listing: object | None
) -> Explanation:
    """The questions about a call of `tool`; without a listing only the operator's own mapping of it is known.

    Raises:
        MappingError: The gate would refuse the call.
        ConfigurationInvalid: The listing does not list the tool.
    """
    bare = types.Tool(name=tool, input_schema={"type": "object"})
    found = known(bare, settings.tools.get(tool)) if listing is None else tool_of(listing, tool, settings)
    binding = map_call(
        found.mapping(),
        server=settings.server_name,
        tool=tool,
        title=found.title,
        arguments=arguments,
        token_claims=caller.claims,
        principal=caller.principal,
        subject_claim=settings.subject_claim,
        disclosed=found.disclosed,
    )
    return Explanation(questions(binding), binding.warnings)


def explain_method(
    settings: GateSettings, method: str, params: Mapping[str, Any], *, caller: FrontCaller
) -> Explanation:
    """The questions about another method.

    Raises:
        MappingError: The gate would refuse it.
    """
    declared = settings.methods.get(method)
    return Explanation(
        map_method(
            method,
            params,
            server=settings.server_name,
            own=settings.resource,
            token_claims=caller.claims,
            principal=caller.principal,
            subject_claim=settings.subject_claim,
            declared=None if declared is None else declared_mapping(declared),
        )
    )


def is_method(settings: GateSettings, name: str) -> bool:
    """Whether `name` is a method that the gate has a mapping for, not a tool."""
    return name in METHODS or name in settings.methods
