"""Pages from templates, and the files that they link to.

Every value has its hidden characters written out and is escaped by the engine, an unknown name is an error instead of
an empty spot, and no template decides anything. Templates stand beside the packages in a checkout and inside this one
in a wheel.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from arap_service.domain.addresses import leads_of
from arap_service.domain.visible import visible
from arap_service.web import next_steps, operation_words, value_words, words
from arap_service.web.alerts import Alert
from arap_service.web.rights import MenuEntry

_PACKAGE: Final = Path(__file__).resolve().parent.parent
_MEDIA: Final[Mapping[str, str]] = MappingProxyType(
    {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
)


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the package as it is sent; `version` changes with the content, so that it may be cached for ever."""

    content: bytes
    media_type: str
    version: str


@dataclass(frozen=True, slots=True)
class Page:
    """What every template knows: where the desk is mounted, who reads, the token for forms, the time.

    `warning` says that this installation is not meant for real decisions, and why. `menu` holds what the reader may
    open, `alerts` what he has to hear of as an operator. Times are shown by the clocks of `zone`; unless the reader has
    chosen it, scripts show them by those of his machine.
    """

    root: str
    path: str
    now: datetime
    person: str | None
    form_token: str
    warning: str | None
    zone: tzinfo = UTC
    is_zone_chosen: bool = False
    menu: tuple[MenuEntry, ...] = ()
    alerts: tuple[Alert, ...] = ()


@cache
def assets() -> Mapping[str, Asset]:
    """The files that pages link to, by name; nothing else is ever served."""
    found = {}
    for path in sorted((_PACKAGE / "static").iterdir()):
        if path.suffix in _MEDIA:
            content = path.read_bytes()
            found[path.name] = Asset(content, _MEDIA[path.suffix], hashlib.sha256(content).hexdigest()[:16])
    return MappingProxyType(found)


def asset_path(name: str) -> str:
    """Where a file is served, below the desk's root."""
    return f"/desk/static/{assets()[name].version}/{name}"


def template_folder() -> Path:
    """The folder of the templates, in a wheel or in a checkout."""
    inside = _PACKAGE / "_templates"
    return inside if inside.is_dir() else _PACKAGE.parent / "templates"


def _shown(value: Any) -> Any:
    # ARS-126: here, so that no template can forget it; what a macro produced has been through it.
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _filters() -> dict[str, Callable[..., Any]]:
    return {
        "absolute": words.absolute,
        "after_approval": next_steps.after_approval,
        "after_denial": next_steps.after_denial,
        "attempt": operation_words.attempt,
        "counted": words.counted,
        "delivery": operation_words.delivery,
        "disposition": words.disposition,
        "event": operation_words.event,
        "folded": value_words.folded,
        "gaps": value_words.gaps,
        "grouped": value_words.grouped,
        "has_odd_letters": next_steps.has_odd_letters,
        "instant": value_words.instant,
        "kind": operation_words.kind,
        "lacks_zone": value_words.lacks_zone,
        "leads": leads_of,
        "letters": value_words.letters,
        "member": words.member,
        "members": words.members,
        "named": words.named,
        "notice": operation_words.notice,
        "plain": operation_words.plain,
        "pointer": words.pointer,
        "principal": words.principal,
        "reason": words.reason,
        "reason_hints": words.reason_hints,
        "relative": words.relative,
        "remark": words.remark,
        "risk": words.risk,
        "several_result": words.several_result,
        "span": words.span,
        "standing": words.standing,
        "status": words.status,
        "trouble": operation_words.trouble,
        "valued": words.valued,
        "vouching": words.vouching,
        "why_not": words.why_not,
    }


@cache
def environment() -> Environment:
    """The template engine with the desk's words as filters."""
    engine = Environment(
        loader=FileSystemLoader(template_folder()),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    engine.globals["asset_path"] = asset_path
    engine.filters.update(_filters())
    return engine


def render(name: str, page: Page, *, status: int = 200, **values: Any) -> HTMLResponse:
    """One template as a response; headers are the business of the route."""
    return HTMLResponse(environment().get_template(name).render(page=page, **values), status_code=status)
