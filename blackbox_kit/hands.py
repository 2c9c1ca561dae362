"""A deployment's hands: how the deployment under test is told to approve, deny, restart and so on.

A verb is a command, run without a shell, or a URL to post to; names in braces in either stand for what is meant.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Generic, Protocol, Self, TypeVar

import anyio
import httpx2
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from blackbox_kit.causes import cause_of
from blackbox_kit.model import NotRun
from blackbox_kit.processes import ran


class ControlInvalid(Exception):
    """The control file cannot be used; the text says why."""


class Declined(NotRun):
    """The deployment was asked, and said no; what could not be asked, or never answered, is no such thing."""


class Part(BaseModel):
    """A part of a control file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Verb(Part):
    """How something is brought about: `run`, a command and its arguments, or `post`, a URL."""

    run: tuple[str, ...] = ()
    post: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if bool(self.run) == (self.post is not None):
            raise ValueError("needs either run or post")
        return self


class Secret(Part):
    """A token: from an environment variable, a file, or what a command prints."""

    env: str | None = None
    file: Path | None = None
    run: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum((self.env is not None, self.file is not None, bool(self.run))) != 1:
            raise ValueError("needs exactly one of env, file and run")
        return self


class Times(Part):
    """Seconds."""

    request: Annotated[float, Field(gt=0, le=600)] = 15
    verb: Annotated[float, Field(gt=0, le=600)] = 30
    end: Annotated[float, Field(gt=0, le=3600)] = 30
    poll: Annotated[float, Field(gt=0, le=60)] = 2
    settle: Annotated[float, Field(ge=0, le=60)] = 1
    check: Annotated[float, Field(gt=0, le=7200)] = 120


class Steerable(Protocol):
    """What hands need of a control file."""

    @property
    def verbs(self) -> Mapping[str, Verb]:
        """How each thing is brought about."""

    @property
    def seconds(self) -> Times:
        """How long each thing may take."""


Given = TypeVar("Given", bound=Steerable)
Model = TypeVar("Model", bound=BaseModel)
TOKEN: Final = "token"  # noqa: S105 - what a command is run for


def each_its_own(tokens: Mapping[str, str | None]) -> None:
    """See that the tokens of several callers differ: what one may not do to another shows nothing where both are one.

    Raises:
        ControlInvalid: Two are the same; it names the callers, never the token.
    """
    given = [token for token in tokens.values() if token]
    if same := [caller for caller, token in tokens.items() if token and given.count(token) > 1]:
        raise ControlInvalid(f"tokens: {' and '.join(same)} have the same token; each needs one of its own")


def read_model(path: Path, model: type[Model]) -> Model:
    """The YAML file at `path` as a model.

    Raises:
        ControlInvalid: It cannot be read, or says something that it cannot.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ControlInvalid(f"{path} cannot be read ({type(error).__name__})") from None
    except yaml.YAMLError:
        raise ControlInvalid(f"{path} is no YAML") from None
    try:
        return model.model_validate({} if document is None else document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ControlInvalid(f"{path}: {where}: {first['msg'].removeprefix('Value error, ')}") from None


class Deputy(Generic[Given]):
    """Carries out the verbs of a control file; commands run in `folder`, without a shell."""

    def __init__(self, control: Given, folder: Path) -> None:
        self.control = control
        self._folder = folder

    def has(self, verb: str) -> bool:
        """Whether the deployment offers it."""
        return verb in self.control.verbs

    async def do(self, verb: str, **named: str) -> str:
        """Carry it out; what it printed.

        Raises:
            Declined: The deployment said that it was not done.
            NotRun: It could not be asked, or took too long.
        """
        how, most = self.control.verbs[verb], self.control.seconds.verb
        try:
            with anyio.fail_after(most):
                if how.post is not None:
                    return await self._post(verb, str(filled(how.post, named)))
                return await self._run(verb, [str(filled(part, named)) for part in how.run])
        except TimeoutError:
            raise NotRun(f"control: {verb} took longer than {most:g} s") from None

    async def token(self, secret: Secret | None) -> str | None:
        """A token, or None where there is none.

        Raises:
            ControlInvalid: It cannot be had.
        """
        if secret is None:
            return None
        where, value = await self._had(secret)
        value = value.strip()
        if not value:
            raise ControlInvalid(f"tokens: {where} is empty")
        if not (value.isascii() and value.isprintable()):
            raise ControlInvalid(f"tokens: {where} has a line break, or characters that no token has")
        return value

    async def _had(self, secret: Secret) -> tuple[str, str]:
        """Where a secret is from, in words, and what stands there."""
        if secret.env is not None:
            if secret.env not in os.environ:
                raise ControlInvalid(f"tokens: {secret.env} is not set")
            return secret.env, os.environ[secret.env]
        if secret.file is not None:
            try:
                return str(secret.file), (self._folder / secret.file).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ControlInvalid(f"tokens: {secret.file} cannot be read ({cause_of(error)})") from None
        try:
            with anyio.fail_after(self.control.seconds.verb):
                return "what the command for a token printed", await self._run(TOKEN, list(secret.run))
        except (NotRun, TimeoutError) as error:
            said = str(error).removeprefix(f"control: {TOKEN} ") or "it had no end"
            raise ControlInvalid(f"tokens: the command for a token failed ({said})") from None

    async def _run(self, verb: str, command: list[str]) -> str:
        try:
            status, said = await ran(command, folder=self._folder)
        except OSError as error:
            raise NotRun(f"control: {verb} cannot be run ({cause_of(error)})") from None
        if status != 0:
            raise Declined(f"control: {verb} ended with status {status}")
        return said.decode(errors="replace")

    async def _post(self, verb: str, url: str) -> str:
        try:
            async with httpx2.AsyncClient(trust_env=False, timeout=None) as http:
                answer = await http.post(url)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, OverflowError, ExceptionGroup) as error:
            raise NotRun(f"control: {verb} got no answer ({cause_of(error)})") from None
        if not answer.is_success:
            raise Declined(f"control: {verb} was answered with HTTP {answer.status_code}")
        return answer.text


def filled(value: Any, named: Mapping[str, str]) -> Any:
    """A JSON value with `{name}` replaced in its texts."""
    if isinstance(value, str):
        for name, text in named.items():
            value = value.replace("{" + name + "}", text)
        return value
    if isinstance(value, Mapping):
        return {name: filled(member, named) for name, member in value.items()}
    return [filled(item, named) for item in value] if isinstance(value, list) else value
