"""The control file: which calls to make, and how the deployment under test is told to approve, deny, restart and so on.

Everything that a deployment supplies. A verb is a command, run without a shell, or a URL to post to; `{marker}`,
`{task}` and `{tool}` in either stand for the call that is meant. docs/conformance.md.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self

import anyio
import httpx2
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from mcp_gate.conformance.model import Json, NotRun

VERBS: Final[Mapping[str, str]] = {
    "approve": "approve the pending call; whatever was decided before stays decided",
    "deny": "deny the pending call",
    "expire": "let the time of the pending call run out now",
    "ask": "have the pending call ask its client for input; it goes on once that is given",
    "revoke": "from now on policy denies this call, whatever is approved",
    "fail": "have the approval backend fail for good before anything is decided",
    "restart": "kill the server and start it again; on stdio the suite does that itself",
    "count": "print how often the tool was carried out for this marker, as one number",
}
CALLS: Final[Mapping[str, str]] = {
    "gated": "somebody must approve it",
    "permitted": "runs at once",
    "denied": "is denied and cannot be requested",
    "failing": "must be approved, and its tool then reports an error",
    "lost": "must be approved, and what its tool did cannot be known, because no answer comes",
    "before": "must be approved, and asks for input before the request can be made",
    "changed_tool": "the gated call with another tool",
    "changed_arguments": "the gated call with other arguments",
    "changed_subject": "the gated call about another subject, the caller being the same",
    "changed_resource": "the gated call about another resource",
}


class ControlInvalid(Exception):
    """The control file cannot be used; the text says why."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Call(_Part):
    """A call of a tool; `{marker}` in its arguments is new for each call, so that no call joins another's task."""

    tool: str
    arguments: Json = Field(default_factory=dict)

    def marked(self, marker: str) -> Json:
        """The arguments with the marker in its places."""
        filled = _filled(self.arguments, {"marker": marker})
        return dict(filled) if isinstance(filled, Mapping) else {}


class Verb(_Part):
    """How something is brought about: `run`, a command and its arguments, or `post`, a URL."""

    run: tuple[str, ...] = ()
    post: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if bool(self.run) == (self.post is not None):
            raise ValueError("needs either run or post")
        return self


class Secret(_Part):
    """A token: from an environment variable, a file, or what a command prints."""

    env: str | None = None
    file: Path | None = None
    run: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum((self.env is not None, self.file is not None, bool(self.run))) != 1:
            raise ValueError("needs exactly one of env, file and run")
        return self


class Tokens(_Part):
    """Bearer tokens: of the caller, and of another principal who must not see the caller's tasks."""

    first: Secret | None = None
    second: Secret | None = None


class Hidden(_Part):
    """Texts that must never reach a client: of the backend's, and who decides."""

    artifacts: tuple[str, ...] = ()
    people: tuple[str, ...] = ()


class Phrases(_Part):
    """Regular expressions that tell what a result's text states; English by default."""

    ran: str = r"\b(ran|run|executed|invoked|carried out|performed|completed|succeeded)\b"
    not_run: str = (
        r"\b(not|never)\s+(been\s+)?(run|ran|executed?|invoked?|carried out|performed?|called)\b"
        r"|n['’]t\s+(run|execute|executed|performed|called)\b|without (running|executing)|no side effect"
    )
    unknown: str = (
        r"\b(may|might|could) (have|or may not have)|\bunknown\b|(cannot|could not|not) be (determined|known)"
    )

    @field_validator("*")
    @classmethod
    def _readable(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error:
            raise ValueError("is no regular expression") from None
        return pattern


class Times(_Part):
    """Seconds."""

    request: Annotated[float, Field(gt=0, le=600)] = 15
    verb: Annotated[float, Field(gt=0, le=600)] = 30
    end: Annotated[float, Field(gt=0, le=3600)] = 30
    poll: Annotated[float, Field(gt=0, le=60)] = 2
    settle: Annotated[float, Field(ge=0, le=60)] = 1
    check: Annotated[float, Field(gt=0, le=7200)] = 120


class Control(_Part):
    """A control file as a whole."""

    calls: dict[str, Call] = Field(default_factory=dict)
    verbs: dict[str, Verb] = Field(default_factory=dict)
    tokens: Tokens = Tokens()
    answers: Json = Field(default_factory=dict)
    hidden: Hidden = Hidden()
    phrases: Phrases = Phrases()
    seconds: Times = Times()

    @model_validator(mode="after")
    def _known(self) -> Self:
        for what, given, known in (("verb", self.verbs, VERBS), ("call", self.calls, CALLS)):
            for name in given:
                if name not in known:
                    raise ValueError(f"there is no {what} {name}; there are {', '.join(known)}")
        return self


def read_control(path: Path) -> Control:
    """The control file at `path`.

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
        return Control.model_validate({} if document is None else document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ControlInvalid(f"{path}: {where}: {first['msg'].removeprefix('Value error, ')}") from None


class Hands:
    """Carries out the verbs of a control file; commands run in `folder`, without a shell."""

    def __init__(self, control: Control, folder: Path) -> None:
        self.control = control
        self._folder = folder

    def has(self, verb: str) -> bool:
        """Whether the deployment offers it."""
        return verb in self.control.verbs

    async def do(self, verb: str, **named: str) -> str:
        """Carry it out; what it printed.

        Raises:
            NotRun: It failed, or took too long.
        """
        how, most = self.control.verbs[verb], self.control.seconds.verb
        try:
            with anyio.fail_after(most):
                if how.post is not None:
                    return await self._post(verb, str(_filled(how.post, named)))
                return await self._run(verb, [str(_filled(part, named)) for part in how.run])
        except TimeoutError:
            raise NotRun(f"control: {verb} took longer than {most:g} s") from None

    async def token(self, secret: Secret | None) -> str | None:
        """A token, or None where there is none.

        Raises:
            ControlInvalid: It cannot be had.
        """
        if secret is None:
            return None
        if secret.env is not None:
            if not os.environ.get(secret.env):
                raise ControlInvalid(f"tokens: {secret.env} is not set")
            return os.environ[secret.env].strip()
        if secret.file is not None:
            try:
                return (self._folder / secret.file).read_text(encoding="ascii").strip()
            except (OSError, UnicodeDecodeError):
                raise ControlInvalid(f"tokens: {secret.file} cannot be read") from None
        try:
            with anyio.fail_after(self.control.seconds.verb):
                return (await self._run("token", list(secret.run))).strip()
        except (NotRun, TimeoutError):
            raise ControlInvalid("tokens: the command for a token failed") from None

    async def _run(self, verb: str, command: list[str]) -> str:
        try:
            done = await anyio.run_process(
                command, cwd=self._folder, check=False, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        except OSError as error:
            raise NotRun(f"control: {verb} cannot be run ({type(error).__name__})") from None
        if done.returncode != 0:
            raise NotRun(f"control: {verb} ended with status {done.returncode}")
        return done.stdout.decode(errors="replace")

    async def _post(self, verb: str, url: str) -> str:
        try:
            async with httpx2.AsyncClient(trust_env=False, timeout=None) as http:
                answer = await http.post(url)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise NotRun(f"control: {verb} got no answer ({type(error).__name__})") from None
        if not answer.is_success:
            raise NotRun(f"control: {verb} was answered with HTTP {answer.status_code}")
        return answer.text


def _filled(value: Any, named: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for name, text in named.items():
            value = value.replace("{" + name + "}", text)
        return value
    if isinstance(value, Mapping):
        return {name: _filled(member, named) for name, member in value.items()}
    return [_filled(item, named) for item in value] if isinstance(value, list) else value
