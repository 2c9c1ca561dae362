"""`mcp-gate explain`: prints the question about a call, and with `--evaluate` the answer to it.

Parses and prints; the question is built in `explaining`.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Final

import anyio
import typer

from mcp_gate.backend import DecisionPointUnavailable, Denial, Permit
from mcp_gate.errors import GateError
from mcp_gate.explaining import Explanation, caller_for, claims_of_token, explain_call, explain_method, is_method
from mcp_gate.extension import check_arguments
from mcp_gate.local.backend import judge
from mcp_gate.runtime import open_arap
from mcp_gate.settings import ConfigurationInvalid, GateSettings, load_settings
from mcp_gate.templates import Json
from mcp_gate.writable import visible

DENIED: Final = 1


def explain(
    what: Annotated[str, typer.Argument(help="A tool's name, or a method such as resources/read.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments as key=value; JSON, else text.")] = None,
    *,
    config: Annotated[Path, typer.Option("--config", help="YAML file with the gate's settings.")],
    claims: Annotated[Path | None, typer.Option(help="JSON file with the claims of the caller's token.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with a JWT; its claims are read, and nothing about it is verified.")
    ] = None,
    listing: Annotated[
        Path | None, typer.Option(help="JSON file with the tool, or the tools/list answer, for a mapping it declares.")
    ] = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Also ask the decision point; else nothing is sent.")
    ] = False,
) -> None:
    """Show what the decision point would be asked about a call; nothing runs and nothing is requested.

    The caller is whom --claims or --token-file names, else stdio.principal of the settings. Status 1 means denied.
    """
    settings = load_settings(config)
    if claims is not None and token_file is not None:
        raise ConfigurationInvalid("give --claims or --token-file, not both")
    given = _json(claims, "--claims") if claims is not None else None
    if token_file is not None:
        given = claims_of_token(_text(token_file, "--token-file"))
    if given is not None and not isinstance(given, dict):
        raise ConfigurationInvalid("--claims: must be a JSON object")
    params = dict(_member(item) for item in arguments or [])
    try:
        caller = caller_for(settings, given)
        if is_method(settings, what):
            explained = explain_method(settings, what, params, caller=caller)
        else:
            check_arguments(params, limit=settings.limits.argument_bytes)
            listed = None if listing is None else _json(listing, "--listing")
            explained = explain_call(settings, what, params, caller=caller, listing=listed)
    except GateError as error:
        raise ConfigurationInvalid(f"{error.message} ({error.code})") from None
    _print(explained)
    if evaluate:
        raise typer.Exit(anyio.run(_evaluate, settings, explained))


def _print(explained: Explanation) -> None:
    for warning in explained.warnings:
        typer.echo(f"warning: {warning}", err=True)
    shown: Any = explained.questions[0] if len(explained.questions) == 1 else list(explained.questions)
    typer.echo(visible(json.dumps(shown, indent=2, ensure_ascii=False)))


async def _evaluate(settings: GateSettings, explained: Explanation) -> int:
    status = 0
    for decision in await _decisions(settings, explained):
        answer: Json = {"decision": isinstance(decision, Permit)}
        if not isinstance(decision, Permit):
            answer |= {"reason": decision.reason, "requestable": decision.requestable}
            status = DENIED
        typer.echo(visible(json.dumps(answer, ensure_ascii=False)))
    return status


async def _decisions(settings: GateSettings, explained: Explanation) -> list[Permit | Denial]:
    if settings.local is not None:
        return [judge(settings.local, question) for question in explained.questions]
    async with open_arap(settings) as backend:
        try:
            return [await backend.evaluate(question) for question in explained.questions]
        except DecisionPointUnavailable:
            raise ConfigurationInvalid("backend: the decision point gave no decision; is it running?") from None


def _member(item: str) -> tuple[str, Any]:
    key, equals, text = item.partition("=")
    if not equals or not key:
        raise ConfigurationInvalid(f"{item!r} is not key=value")
    try:
        return key, json.loads(text)
    except ValueError:
        return key, text
    except RecursionError:
        raise ConfigurationInvalid(f"{key}: its value is nested too deeply") from None


def _text(path: Path, option: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ConfigurationInvalid(f"{option}: {path} cannot be read") from None


def _json(path: Path, option: str) -> Any:
    try:
        return json.loads(_text(path, option))
    except (ValueError, RecursionError):
        raise ConfigurationInvalid(f"{option}: {path} is not JSON") from None
