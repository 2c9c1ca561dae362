"""Tools and a prompt that answer a call with questions of their own, and finish when it comes again with answers.

All of it is the tools' own business: the gate passes their questions and their state on (MCP, multi-round-trip
requests).
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)

Asked = ElicitRequest | CreateMessageRequest | ListRootsRequest
Answer = InputRequiredResult | str
ROOTS: Final = ListRootsRequest()


def form(message: str, member: str, kind: str = "string") -> ElicitRequest:
    """A form with one field."""
    schema: dict[str, Any] = {"type": "object", "properties": {member: {"type": kind}}, "required": [member]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(prompt: str, most: int) -> CreateMessageRequest:
    """Something for the client's model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=most))


NAME: Final = form("What is your name?", "name")


def ask(asked: Mapping[str, Asked], state: str | None = None) -> InputRequiredResult:
    """The questions, as a result."""
    return InputRequiredResult(input_requests=dict(asked), request_state=state)


def answered(ctx: Context[Any, Any], key: str) -> Any:
    """What came back under a key, as JSON; None when nothing did."""
    found = (ctx.input_responses or {}).get(key)
    return None if found is None else found.model_dump(by_alias=True, mode="json", exclude_none=True)


def content_of(ctx: Context[Any, Any], key: str, member: str) -> Any:
    """A field of an accepted form; None when it was not filled."""
    content = (answered(ctx, key) or {}).get("content")
    return content.get(member) if isinstance(content, dict) else None


def add_rounds(server: MCPServer[Any]) -> None:
    """Register them."""
    _add_single(server)
    _add_choosy(server)
    _add_stateful(server)


def _add_single(server: MCPServer[Any]) -> None:
    @server.tool()
    def test_input_required_result_elicitation(ctx: Context[Any, Any]) -> Answer:
        """Greet the user by the name that they give."""
        name = content_of(ctx, "user_name", "name")
        return ask({"user_name": NAME}) if name is None else f"Hello, {name}!"

    @server.tool()
    def test_input_required_result_sampling(ctx: Context[Any, Any]) -> Answer:
        """Have the client's model answer."""
        found = answered(ctx, "capital_question")
        if found is None:
            return ask({"capital_question": sample("What is the capital of France?", 100)})
        return f"The model said: {json.dumps(found.get('content'))}"

    @server.tool()
    def test_input_required_result_list_roots(ctx: Context[Any, Any]) -> Answer:
        """Name the client's roots."""
        found = answered(ctx, "client_roots")
        if found is None:
            return ask({"client_roots": ROOTS})
        return "The roots are: " + ", ".join(root["uri"] for root in found["roots"])


def _add_choosy(server: MCPServer[Any]) -> None:
    @server.tool()
    def test_input_required_result_capabilities(ctx: Context[Any, Any]) -> Answer:
        """Ask only for what the client declared that it can give."""
        if ctx.input_responses:
            return "Thank you."
        declared, asked = ctx.client_capabilities, dict[str, Asked]()
        if declared is not None and declared.sampling is not None:
            asked["greeting"] = sample("Generate a greeting", 50)
        if declared is not None and declared.elicitation is not None:
            asked["user_name"] = NAME
        return ask(asked) if asked else "There is nothing that this client could be asked for."

    @server.prompt(description="A prompt that needs an answer first")
    def test_input_required_result_prompt(ctx: Context[Any, Any]) -> InputRequiredResult | list[UserMessage]:
        context = content_of(ctx, "user_context", "context")
        if context is None:
            return ask({"user_context": form("What context should the prompt use?", "context")})
        return [UserMessage(f"The context is: {context}")]


def _add_stateful(server: MCPServer[Any]) -> None:
    """Tools that keep a state between rounds; the SDK seals it, and refuses one that was altered."""

    @server.tool()
    def test_input_required_result_request_state(ctx: Context[Any, Any]) -> Answer:
        """Finish when the state has come back."""
        if ctx.request_state != "asked":
            return ask({"confirm": form("Please confirm", "ok", "boolean")}, "asked")
        return "state-ok"

    @server.tool()
    def test_input_required_result_tampered_state(ctx: Context[Any, Any]) -> Answer:
        """Finish when the state has come back unaltered."""
        if ctx.request_state != "untouched":
            return ask({"confirm": form("Please confirm", "ok", "boolean")}, "untouched")
        return "state-ok"

    @server.tool()
    def test_input_required_result_multiple_inputs(ctx: Context[Any, Any]) -> Answer:
        """Ask for three things at once."""
        asked: dict[str, Asked] = {
            "user_name": NAME,
            "greeting": sample("Generate a greeting", 50),
            "client_roots": ROOTS,
        }
        if ctx.request_state != "asked" or any(answered(ctx, key) is None for key in asked):
            return ask(asked, "asked")
        return f"Everything is there for {content_of(ctx, 'user_name', 'name')}."

    @server.tool()
    def test_input_required_result_multi_round(ctx: Context[Any, Any]) -> Answer:
        """Ask twice, one question after the other."""
        state: dict[str, str] = json.loads(ctx.request_state or "{}")
        name = state.get("name") or content_of(ctx, "step1", "name")
        if name is None:
            return ask({"step1": form("Step 1: What is your name?", "name")}, json.dumps({"round": "1"}))
        color = content_of(ctx, "step2", "color")
        if color is None:
            asked = {"step2": form("Step 2: What is your favorite color?", "color")}
            return ask(asked, json.dumps({"round": "2", "name": name}))
        return f"{name} likes {color}."
