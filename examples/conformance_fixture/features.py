"""What the suite asks of any server: contents of every kind, resources, prompts, completion, progress, questions.

All of it is permitted, so it shows that a gate leaves an ordinary server as it is.
"""

import base64
import json
import struct
import zlib
from typing import Annotated, Any, Final

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    Completion,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import Field

STEP_SECONDS: Final = 0.05
FULL_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


PIXEL: Final = (  # one red pixel as PNG
    b"\x89PNG\r\n\x1a\n"
    + _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    + _chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
    + _chunk(b"IEND", b"")
)
SILENCE: Final = b"RIFF" + struct.pack(  # one silent sample as WAV
    "<I8sIHHIIHH4sIH", 38, b"WAVEfmt ", 16, 1, 1, 8000, 16000, 2, 16, b"data", 2, 0
)


def text(value: str) -> TextContent:
    """A text."""
    return TextContent(type="text", text=value)


def image() -> ImageContent:
    """The pixel."""
    return ImageContent(type="image", data=base64.b64encode(PIXEL).decode(), mime_type="image/png")


def embedded(uri: str, mime_type: str, content: str) -> EmbeddedResource:
    """A resource inside a result."""
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=content))


def add_features(server: MCPServer[Any]) -> None:
    """Register everything; the first tool can be called without arguments, which the suite relies on."""
    _add_contents(server)
    _add_conversations(server)
    _add_signals(server)
    _add_schemas(server)
    _add_resources(server)
    _add_prompts(server)
    _add_older_methods(server)


def _add_contents(server: MCPServer[Any]) -> None:
    @server.tool()
    def test_simple_text() -> list[TextContent]:
        """Answer with a text."""
        return [text("This is a simple text response for testing.")]

    @server.tool()
    def test_image_content() -> list[ImageContent]:
        """Answer with an image."""
        return [image()]

    @server.tool()
    def test_audio_content() -> list[AudioContent]:
        """Answer with a sound."""
        return [AudioContent(type="audio", data=base64.b64encode(SILENCE).decode(), mime_type="audio/wav")]

    @server.tool()
    def test_embedded_resource() -> list[EmbeddedResource]:
        """Answer with a resource."""
        return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]

    @server.tool()
    def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        """Answer with one of each."""
        document = json.dumps({"test": "data", "value": 123})
        return [
            text("Multiple content types test:"),
            image(),
            embedded("test://mixed-content-resource", "application/json", document),
        ]

    @server.tool()
    def test_error_handling() -> str:
        """Fail always."""
        raise ToolError("This tool intentionally returns an error for testing")


def _add_conversations(server: MCPServer[Any]) -> None:
    """Tools that ask the client in the middle of a call, as the handshake era does."""

    @server.tool()
    async def test_sampling(prompt: str, ctx: Context[Any, Any]) -> str:
        """Have the client's model answer."""
        message = SamplingMessage(role="user", content=text(prompt))
        answer = await ctx.session.create_message(messages=[message], max_tokens=100, related_request_id=ctx.request_id)
        return f"LLM response: {answer.content.text if isinstance(answer.content, TextContent) else 'no text'}"

    async def asked(ctx: Context[Any, Any], message: str, schema: dict[str, Any]) -> str:
        answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
        return f"action={answer.action}, content={json.dumps(answer.content)}"

    @server.tool()
    async def test_elicitation(message: str, ctx: Context[Any, Any]) -> str:
        """Ask the user for a name and an address."""
        fields = {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        }
        schema = {"type": "object", "properties": fields, "required": ["username", "email"]}
        return "User response: " + await asked(ctx, message, schema)

    @server.tool()
    async def test_elicitation_sep1034_defaults(ctx: Context[Any, Any]) -> str:
        """Ask with a default for every kind of field."""
        fields = {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        }
        return "Elicitation completed: " + await asked(ctx, "Defaults?", {"type": "object", "properties": fields})

    @server.tool()
    async def test_elicitation_sep1330_enums(ctx: Context[Any, Any]) -> str:
        """Ask with every kind of choice."""
        plain = ["option1", "option2", "option3"]
        titled = [{"const": f"value{n}", "title": f"{name} Option"} for n, name in enumerate(ORDINALS, 1)]
        chosen = [{"const": f"value{n}", "title": f"{name} Choice"} for n, name in enumerate(ORDINALS, 1)]
        fields = {
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": chosen}},
        }
        return "Elicitation completed: " + await asked(ctx, "Choices?", {"type": "object", "properties": fields})


ORDINALS: Final = ("First", "Second", "Third")


def _add_signals(server: MCPServer[Any]) -> None:
    """Tools that say something besides their result."""

    @server.tool()
    async def test_tool_with_logging(ctx: Context[Any, Any]) -> str:
        """Log three lines."""
        lines = ("Tool execution started", "Tool processing data", "Tool execution completed")
        for line in lines:
            await ctx.session.send_log_message("info", line, related_request_id=ctx.request_id)
            await anyio.sleep(STEP_SECONDS)
        return "Logged three lines."

    @server.tool()
    async def test_tool_with_progress(ctx: Context[Any, Any]) -> str:
        """Report progress three times."""
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100)
            await anyio.sleep(STEP_SECONDS)
        return "Reported progress three times."

    @server.tool()
    async def test_trigger_tool_change(ctx: Context[Any, Any]) -> str:
        """Say that the tools have changed."""
        await ctx.notify_tools_changed()
        return "Said so."

    @server.tool()
    async def test_trigger_prompt_change(ctx: Context[Any, Any]) -> str:
        """Say that the prompts have changed."""
        await ctx.notify_prompts_changed()
        return "Said so."

    @server.tool()
    def test_missing_capability(ctx: Context[Any, Any]) -> str:
        """Need a client that can sample."""
        declared = ctx.client_capabilities
        if declared is None or declared.sampling is None:
            data: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs sampling", data)
        return "The client can sample."


def _add_schemas(server: MCPServer[Any]) -> None:
    """Tools whose schemas say more than types."""

    @server.tool()
    def test_headers(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        """Take an argument that travels in a header as well."""
        return f"In {region}."

    def json_schema_2020_12_tool(
        name: str = "", address: dict[str, Any] | None = None, phone: str = "", email: str = ""
    ) -> str:
        """Take what a large schema describes."""
        return f"{name} {phone or email} {address or ''}".strip()

    tool = Tool.from_function(json_schema_2020_12_tool)
    server._tool_manager._tools[tool.name] = tool.model_copy(update={"parameters": FULL_SCHEMA})  # noqa: SLF001 - the SDK offers no way to name a schema


def _add_resources(server: MCPServer[Any]) -> None:
    @server.resource("test://static-text", name="Static text", description="A text", mime_type="text/plain")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", name="Static image", description="An image", mime_type="image/png")
    def static_binary() -> bytes:
        return PIXEL

    @server.resource(
        "test://template/{id}/data", name="By id", description="A document by id", mime_type="application/json"
    )
    def by_id(id: str) -> str:  # noqa: A002 - the suite names the parameter
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    @server.resource("test://watched-resource", name="Watched", description="A text to watch", mime_type="text/plain")
    def watched() -> str:
        return "Nothing new."


def _add_prompts(server: MCPServer[Any]) -> None:
    @server.prompt(description="A prompt without arguments")
    def test_simple_prompt() -> str:
        return "This is a simple prompt for testing."

    @server.prompt(description="A prompt with arguments")
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt(description="A prompt with a resource in it")
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 - the suite names it
        resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
        return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]

    @server.prompt(description="A prompt with an image in it")
    def test_prompt_with_image() -> list[UserMessage]:
        return [UserMessage(image()), UserMessage("Please analyze the image above.")]

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator] # the SDK leaves it untyped
    async def complete(ref: object, argument: Any, context: object) -> Completion:
        del ref, context
        values = [value for value in ("paris", "park", "party") if value.startswith(argument.value)]
        return Completion(values=values, total=len(values), has_more=False)


def _add_older_methods(server: MCPServer[Any]) -> None:
    """Methods that later versions dropped; the SDK refuses them there by itself."""
    lowlevel = server._lowlevel_server  # noqa: SLF001 - the SDK has no public way to serve them

    async def accept(ctx: object, params: object) -> EmptyResult:
        del ctx, params
        return EmptyResult()

    lowlevel.add_request_handler("logging/setLevel", SetLevelRequestParams, accept)
    lowlevel.add_request_handler("resources/subscribe", SubscribeRequestParams, accept)
    lowlevel.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, accept)
